# foreign-key-join, program base-reading, faults: late
# shows that the level of one view record is weak and no more
# view record [2] shows: nothing; then {"k":2,"y":2,"z":"p"}; then {"k":2,"y":2,"z":"q"}; then {"k":2,"y":2,"z":"p"}
# level of the worst view record: weak; of the whole view: weak
view foreign-key-join
program base-reading
managers 1
streams 1
expect record weak
expect view weak
initial s [2] {"k":2,"z":"t"}
update r [2] {"k":2,"y":2}
update s [2] {"k":2,"z":"q"}
update s [2] {"k":2,"z":"p"}

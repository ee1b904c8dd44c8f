# foreign-key-join, program letter, faults: late
# shows that the level of one view record is weak and no more
# view record [2] shows: nothing; then {"k":2,"y":1,"z":"p"}; then {"k":2,"y":1,"z":"q"}; then {"k":2,"y":1,"z":"p"}
# level of the worst view record: weak; of the whole view: weak
view foreign-key-join
program letter
managers 1
streams 1
expect record weak
expect view weak
initial s [1] {"k":1,"z":"t"}
update r [2] {"k":2,"y":1}
update s [1] {"k":1,"z":"q"}
update s [1] {"k":1,"z":"p"}

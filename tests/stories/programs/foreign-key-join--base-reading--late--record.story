# foreign-key-join, program base-reading, faults: late
# shows that the level of one view record is strong and no more
# view record [2] shows: {"k":2,"y":2,"z":"t"}; then {"k":2,"y":2,"z":"p"}
# level of the worst view record: strong; of the whole view: strong
view foreign-key-join
program base-reading
managers 1
streams 1
expect record strong
expect view strong
initial s [2] {"k":2,"z":"t"}
initial r [2] {"k":2,"y":2}
update s [2] {"k":2,"z":"q"}
update s [2] {"k":2,"z":"p"}

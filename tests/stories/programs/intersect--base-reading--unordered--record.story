# intersect, program base-reading, faults: unordered
# shows that the level of one view record is strong and no more
# view record [2, 'b'] shows: nothing
# level of the worst view record: strong; of the whole view: strong
view intersect
program base-reading
managers 3
streams 1
without flow control
expect record strong
expect view strong
initial s [2] {"k":2,"x":"b"}
update r [1] {"k":1,"x":"b"}
update r [2] {"k":2,"x":"b"}
update r [2] -
step write
step write
step m2 take 7

# union, program base-reading, faults: unordered
# shows that the level of one view record is strong and no more
# view record [2, 'b'] shows: nothing
# level of the worst view record: strong; of the whole view: strong
view union
program base-reading
managers 2
streams 1
without flow control
expect record strong
expect view strong
update s [2] {"k":2,"x":"a"}
update r [2] {"k":2,"x":"a"}
update s [2] {"k":2,"x":"a"}
update r [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"a"}
step write
step write
step write
step write
step write
step m1 take 4

# projection-moving-key, program signature, faults: unordered
# shows that the level of one view record is strong and no more
# view record ['a', 3] shows: nothing
# level of the worst view record: strong; of the whole view: strong
view projection-moving-key
program signature
managers 1
streams 1
without flow control
expect record strong
expect view strong
update r [1] {"k":1,"x":"b","y":2}
update r [3] {"k":3,"x":"a","y":5}
update r [3] -
update r [3] {"k":3,"x":"b","y":2}
step write
step write
step write
step write
step m0 take 6

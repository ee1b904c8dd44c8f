# projection-keeping-key, program signature, faults: unordered
# shows that the level of the whole view is strong and no more
# view record [2] shows: nothing; then {"k":2,"x":"a"}
# level of the worst view record: strong; of the whole view: strong
view projection-keeping-key
program signature
managers 1
streams 1
without flow control
expect record strong
expect view strong
initial r [1] {"k":1,"x":"b","y":2}
update r [2] {"k":2,"x":"b","y":5}
update r [2] {"k":2,"x":"a","y":5}
update r [2] {"k":2,"x":"a","y":5}
update r [1] -
step write
step write
step write
step write
step m0 take 6

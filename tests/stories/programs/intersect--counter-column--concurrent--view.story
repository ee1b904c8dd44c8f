# intersect, program counter-column, faults: concurrent
# shows that the level of the whole view is strong and no more
# level of the worst view record: complete; of the whole view: strong
view intersect
program counter-column
managers 2
streams 2
expect record complete
expect view strong
initial r [2] {"k":2,"x":"b"}
update r [1] {"k":1,"x":"a"}
update s [2] {"k":2,"x":"a"}
update s [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"a"}
step write
step write
step write
step write
step m0 take 5
step m0
step m0
step m0
step m1 take 0
step m0
step m1
step m1
step m1
step m1
step m1 take 4
step m1
step m1
step m1

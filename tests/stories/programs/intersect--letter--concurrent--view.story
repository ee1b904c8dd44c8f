# intersect, program letter, faults: concurrent
# shows that the level of the whole view is not_converged and no more
# view record [2, 'b'] shows: nothing; then {"k":2,"x":"b"}
# level of the worst view record: not_converged; of the whole view: not_converged
view intersect
program letter
managers 3
streams 3
expect record not_converged
expect view not_converged
update s [1] {"k":1,"x":"b"}
update r [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"b"}
update s [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"a"}
step write
step write
step m2 take 1
step m2
step m2
step write
step m2
step m2 take 3
step m2
step write
step m1 take 3
step m1
step m1
step m1
step write
step m2 take 6
step m2
step m2

# union, program counter-column, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record [1, 'a'] shows: {"k":1,"x":"a"}
# level of the worst view record: not_converged; of the whole view: not_converged
view union
program counter-column
managers 3
streams 3
without flow control
expect record not_converged
expect view not_converged
initial r [1] {"k":1,"x":"a"}
update s [1] {"k":1,"x":"a"}
update r [1] {"k":1,"x":"a"}
update r [1] {"k":1,"x":"b"}
update s [1] -
step write
step m2 take 2
step m2
step m2
step m2
step write
step m2
step m1 take 2
step write
step m2 take 2

# except, program counter-column, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [1, 'a'] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view except
program counter-column
managers 1
streams 3
without flow control
expect record not_converged
expect view not_converged
update s [1] {"k":1,"x":"a"}
update s [1] {"k":1,"x":"b"}
update r [1] {"k":1,"x":"a"}
update s [1] -
step write
step m0 take 5
step write
step m0
step m0
step m0
step m0
step write
step write
step m0 take 4

# intersect, program counter-column, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record [1, 'b'] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view intersect
program counter-column
managers 1
streams 3
without flow control
expect record not_converged
expect view not_converged
update r [1] {"k":1,"x":"b"}
update s [1] {"k":1,"x":"b"}
step write
step write
step m0 take 3

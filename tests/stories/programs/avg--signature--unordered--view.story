# avg, program signature, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record ['b'] shows: nothing; then {"x":"b","mean":1.0}; then {"x":"b","mean":-3.0}
# level of the worst view record: not_converged; of the whole view: not_converged
view avg
program signature
managers 2
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"b","y":1}
update r [3] {"k":3,"x":"b","y":5}
update r [3] {"k":3,"x":"b","y":5}
update r [3] {"k":3,"x":"b","y":1}
step write
step write
step write
step write
step m1 take 7

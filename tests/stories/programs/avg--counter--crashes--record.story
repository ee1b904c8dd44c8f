# avg, program counter, faults: crashes
# shows that the level of one view record is not_converged and no more
# view record ['b'] shows: {"x":"b","mean":5.0}; then {"x":"b","mean":2.5}; then {"x":"b","mean":1.6666666666666667}
# level of the worst view record: not_converged; of the whole view: not_converged
view avg
program counter
managers 3
streams 3
expect record not_converged
expect view not_converged
initial r [1] {"k":1,"x":"b","y":5}
update r [2] {"k":2,"x":"b","y":0}
step write
step m2 take 5
step m2
step m2
step m2
step m2 crash

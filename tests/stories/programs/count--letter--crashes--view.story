# count, program letter, faults: crashes
# shows that the level of the whole view is not_converged and no more
# view record ['b'] shows: {"x":"b","n":1}; then nothing; then {"x":"b","n":1}; then nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view count
program letter
managers 3
streams 3
expect record not_converged
expect view not_converged
initial r [2] {"k":2,"x":"b","y":5}
update r [2] {"k":2,"x":"a","y":1}
update r [1] {"k":1,"x":"b","y":2}
step write
step m2 take 4
step m2
step m2
step m2
step m2 crash

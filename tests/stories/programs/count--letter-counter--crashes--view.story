# count, program letter-counter, faults: crashes
# shows that the level of the whole view is not_converged and no more
# view record ['b'] shows: nothing; then {"x":"b","n":1}; then {"x":"b","n":2}
# level of the worst view record: not_converged; of the whole view: not_converged
view count
program letter-counter
managers 3
streams 3
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"b","y":0}
step write
step m2 take 2
step m2 drop
step m2
step m2
step m2 crash

# count, program counter, faults: crashes
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","n":1}; then {"x":"a","n":2}
# level of the worst view record: not_converged; of the whole view: not_converged
view count
program counter
managers 3
streams 3
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"a","y":1}
step write
step m2 take 1
step m2
step m2
step m2 lose

# variance, program counter, faults: crashes
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","spread":null}; then {"x":"a","spread":0.0}
# level of the worst view record: not_converged; of the whole view: not_converged
view variance
program counter
managers 1
streams 1
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"a","y":0}
step write
step m0 take 5
step m0
step m0
step m0
step m0 crash

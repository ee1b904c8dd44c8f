# count-distinct, program counter, faults: crashes
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","n":1}
# level of the worst view record: not_converged; of the whole view: not_converged
view count-distinct
program counter
managers 1
streams 1
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"a","y":5}
update r [3] {"k":3,"x":"a","y":null}
step write
step m0 take 5
step m0
step m0
step m0
step m0 crash

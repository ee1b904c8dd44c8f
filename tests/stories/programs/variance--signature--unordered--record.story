# variance, program signature, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","spread":null}
# level of the worst view record: not_converged; of the whole view: not_converged
view variance
program signature
managers 3
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [1] {"k":1,"x":"a","y":1}
update r [2] {"k":2,"x":"a","y":0}
step write
step m2 take 4

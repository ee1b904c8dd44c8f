# having, program signature, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","n":2}
# level of the worst view record: not_converged; of the whole view: not_converged
view having
program signature
managers 2
streams 1
without flow control
expect record not_converged
expect view not_converged
initial r [3] {"k":3,"x":"a","y":2}
update r [3] -
update r [3] {"k":3,"x":"a","y":2}
step write
step m1 take 0

# count-distinct, program signature, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","n":0}
# level of the worst view record: not_converged; of the whole view: not_converged
view count-distinct
program signature
managers 2
streams 3
without flow control
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"a","y":0}
update r [3] {"k":3,"x":"a","y":null}
step write
step m1 take 0

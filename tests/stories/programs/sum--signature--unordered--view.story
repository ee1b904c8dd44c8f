# sum, program signature, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record ['a'] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view sum
program signature
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"a","y":0}
update r [3] {"k":3,"x":"a","y":2}
step write
step write
step m0 take 7

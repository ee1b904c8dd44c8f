# min, program multiplicities, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record ['a'] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view min
program multiplicities
managers 3
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"a","y":5}
update r [2] {"k":2,"x":"a","y":1}
step write
step write
step m0 take 6
step m2 take 4
step m2
step m2
step m2

# min, program letter, faults: late
# shows that the level of the whole view is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","least":1}
# level of the worst view record: not_converged; of the whole view: not_converged
view min
program letter
managers 1
streams 1
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"a","y":1}
update r [3] {"k":3,"x":"a","y":1}
update r [3] -
step write
step m0 take 6
step m0
step m0
step m0
step m0
step write
step m0 take 3
step m0
step m0
step m0

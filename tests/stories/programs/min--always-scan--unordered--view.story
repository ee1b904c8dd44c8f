# min, program always-scan, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record ['a'] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view min
program always-scan
managers 1
streams 3
without flow control
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"a","y":5}
update r [2] {"k":2,"x":"a","y":0}
update r [3] -
step write
step write
step write
step m0 take 5

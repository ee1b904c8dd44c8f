# min, program letter-always-scan, faults: late
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: nothing; then {"x":"a","least":1}
# level of the worst view record: not_converged; of the whole view: not_converged
view min
program letter-always-scan
managers 1
streams 1
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"a","y":1}
update r [1] {"k":1,"x":"b","y":5}
update r [1] -
update r [2] {"k":2,"x":"a","y":1}
update r [2] {"k":2,"x":"a","y":2}
step write
step m0 take 7
step m0
step m0
step m0
step m0
step write
step m0
step m0 take 6
step m0
step write
step m0
step m0
step write
step m0 take 2
step m0
step m0
step m0 take 4
step m0
step m0
step m0

# count-sum-avg-min-max, program signature, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['b'] shows: nothing; then {"x":"b","n":1,"total":0,"mean":0.0,"least":0,"most":0}; then {"x":"b","n":2,"total":1,"mean":0.5,"least":0,"most":1}
# level of the worst view record: not_converged; of the whole view: not_converged
view count-sum-avg-min-max
program signature
managers 1
streams 3
without flow control
expect record not_converged
expect view not_converged
update r [1] {"k":1,"x":"b","y":1}
update r [2] {"k":2,"x":"a","y":5}
update r [2] {"k":2,"x":"b","y":5}
update r [1] {"k":1,"x":"b","y":1}
update r [3] {"k":3,"x":"b","y":0}
step write
step write
step write
step write
step write
step m0 take 4

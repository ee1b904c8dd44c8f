# count-sum-avg-min-max, program counter, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view count-sum-avg-min-max
program counter
managers 1
streams 1
expect record complete
expect view converged
initial r [3] {"k":3,"x":"b","y":null}
update r [3] {"k":3,"x":"a","y":null}

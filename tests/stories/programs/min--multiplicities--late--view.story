# min, program multiplicities, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view min
program multiplicities
managers 1
streams 1
expect record complete
expect view converged
initial r [2] {"k":2,"x":"b","y":0}
update r [2] {"k":2,"x":"a","y":5}

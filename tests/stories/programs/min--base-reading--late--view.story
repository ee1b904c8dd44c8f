# min, program base-reading, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view min
program base-reading
managers 1
streams 1
expect record complete
expect view converged
initial r [1] {"k":1,"x":"a","y":0}
update r [1] {"k":1,"x":"b","y":0}

# variance, program signature, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view variance
program signature
managers 1
streams 1
expect record complete
expect view converged
initial r [3] {"k":3,"x":"a","y":0}
update r [3] {"k":3,"x":"b","y":0}

# projection-moving-key, program letter, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view projection-moving-key
program letter
managers 1
streams 1
expect record complete
expect view converged
initial r [2] {"k":2,"x":"b","y":5}
update r [2] {"k":2,"x":"a","y":0}

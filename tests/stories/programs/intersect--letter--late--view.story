# intersect, program letter, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view intersect
program letter
managers 1
streams 1
expect record complete
expect view converged
update s [2] {"k":2,"x":"a"}
update r [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"a"}
update s [2] {"k":2,"x":"b"}

# foreign-key-join, program base-reading, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view foreign-key-join
program base-reading
managers 1
streams 1
expect record complete
expect view converged
initial s [1] {"k":1,"z":"q"}
initial r [1] {"k":1,"y":1}
initial r [2] {"k":2,"y":1}
update s [1] {"k":1,"z":"p"}

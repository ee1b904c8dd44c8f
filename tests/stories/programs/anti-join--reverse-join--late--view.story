# anti-join, program reverse-join, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view anti-join
program reverse-join
managers 1
streams 1
expect record complete
expect view converged
initial r [1] {"k":1,"y":1}
initial r [2] {"k":2,"y":2}
initial s [1] {"k":1,"y":2,"z":"q"}
update s [1] {"k":1,"y":1,"z":"q"}

# foreign-key-join, program letter, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view foreign-key-join
program letter
managers 1
streams 1
expect record complete
expect view converged
initial s [1] {"k":1,"z":"q"}
update r [1] {"k":1,"y":1}
update r [2] {"k":2,"y":1}
update s [1] {"k":1,"z":"p"}
update s [1] {"k":1,"z":"q"}

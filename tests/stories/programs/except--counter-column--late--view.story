# except, program counter-column, faults: late
# shows that the level of the whole view is converged and no more
# level of the worst view record: complete; of the whole view: converged
view except
program counter-column
managers 1
streams 1
expect record complete
expect view converged
initial r [1] {"k":1,"x":"a"}
update r [1] {"k":1,"x":"b"}

# foreign-key-join, program letter, faults: concurrent
# shows that the level of the whole view is not_converged and no more
# view record [2] shows: nothing; then {"k":2,"y":2,"z":"p"}
# level of the worst view record: not_converged; of the whole view: not_converged
view foreign-key-join
program letter
managers 3
streams 3
expect record not_converged
expect view not_converged
initial s [2] {"k":2,"z":"p"}
update r [2] {"k":2,"y":2}
update s [2] {"k":2,"z":"t"}
step write
step m2 take 4
step m2
step m2
step m2

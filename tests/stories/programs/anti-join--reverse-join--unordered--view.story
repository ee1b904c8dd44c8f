# anti-join, program reverse-join, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record [2] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view anti-join
program reverse-join
managers 2
streams 3
without flow control
expect record not_converged
expect view not_converged
initial s [1] {"k":1,"y":2,"z":"q"}
update r [1] {"k":1,"y":null}
update s [1] -
update r [1] {"k":1,"y":2}
step write
step m0 take 5
step write
step write
step m1 take 7

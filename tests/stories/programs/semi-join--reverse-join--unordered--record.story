# semi-join, program reverse-join, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [2] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view semi-join
program reverse-join
managers 2
streams 3
without flow control
expect record not_converged
expect view not_converged
update s [1] {"k":1,"y":2,"z":"q"}
update s [1] {"k":1,"y":2,"z":"q"}
update r [1] {"k":1,"y":2}
update r [2] {"k":2,"y":null}
update s [1] {"k":1,"y":2,"z":"q"}
update s [1] {"k":1,"y":2,"z":"p"}
step write
step write
step write
step write
step write
step write
step m1 take 7
step m0 take 4

# full-join, program reverse-join, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [1] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view full-join
program reverse-join
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [2] {"k":2,"y":null}
update r [2] {"k":2,"y":1}
update r [1] {"k":1,"y":1}
update r [2] -
step write
step write
step write
step write
step m0 take 3

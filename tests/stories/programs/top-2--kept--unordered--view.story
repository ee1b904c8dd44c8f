# top-2, program kept, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record [] shows: {"rows":[{"k":2,"x":"b","y":1}]}; then {"rows":[{"k":2,"x":"b","y":1},{"k":3,"x":"a","y":1}]}; then {"rows":[{"k":3,"x":"a","y":1}]}
# level of the worst view record: not_converged; of the whole view: not_converged
view top-2
program kept
managers 3
streams 3
without flow control
expect record not_converged
expect view not_converged
initial r [2] {"k":2,"x":"b","y":1}
update r [3] {"k":3,"x":"a","y":1}
update r [3] -
update r [2] -
step write
step m2 take 3
step write
step m1 take 0
step m2
step m2
step m2

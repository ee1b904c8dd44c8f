# not-in, program kept, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record [] shows: {"rows":[{"k":1,"y":null}]}; then nothing; then {"rows":[{"k":1,"y":null}]}
# level of the worst view record: not_converged; of the whole view: not_converged
view not-in
program kept
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
initial r [1] {"k":1,"y":null}
update r [2] {"k":2,"y":null}
update s [2] {"k":2,"y":1}
update s [1] {"k":1,"y":1}
update s [1] -
step write
step write
step write
step write
step m0 take 6

# inner-join, program reverse-join, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [2] shows: nothing; then {"rows":[{"r.k":2,"r.y":2,"s.k":1,"s.y":2,"s.z":"q"}]}
# level of the worst view record: not_converged; of the whole view: not_converged
view inner-join
program reverse-join
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
initial s [1] {"k":1,"y":2,"z":"q"}
update s [1] -
update r [2] {"k":2,"y":2}
step write
step write
step m0 take 3

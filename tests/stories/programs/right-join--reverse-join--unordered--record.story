# right-join, program reverse-join, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [2] shows: nothing; then {"rows":[{"r.k":null,"r.y":null,"s.k":1,"s.y":2,"s.z":"p"}]}
# level of the worst view record: not_converged; of the whole view: not_converged
view right-join
program reverse-join
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
update r [1] {"k":1,"y":2}
update s [1] {"k":1,"y":2,"z":"p"}
step write
step write
step m0 take 7

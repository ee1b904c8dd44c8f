# foreign-key-join, program base-reading, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record [1] shows: nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view foreign-key-join
program base-reading
managers 2
streams 3
without flow control
expect record not_converged
expect view not_converged
initial s [1] {"k":1,"z":"t"}
update s [1] {"k":1,"z":"p"}
update r [1] {"k":1,"y":1}
update s [1] {"k":1,"z":"q"}
step write
step write
step write
step m1 take 5

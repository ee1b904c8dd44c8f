# min, program base-reading, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['a'] shows: {"x":"a","least":0}
# level of the worst view record: not_converged; of the whole view: not_converged
view min
program base-reading
managers 2
streams 3
without flow control
expect record not_converged
expect view not_converged
initial r [3] {"k":3,"x":"a","y":0}
update r [3] -
update r [2] {"k":2,"x":"a","y":2}
step write
step m1 take 3

# projection-losing-key, program signature, faults: unordered
# shows that the level of one view record is not_converged and no more
# view record ['a', 5] shows: {"x":"a","y":5}
# level of the worst view record: not_converged; of the whole view: not_converged
view projection-losing-key
program signature
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
initial r [3] {"k":3,"x":"a","y":5}
update r [3] {"k":3,"x":"b","y":5}
update r [3] {"k":3,"x":"a","y":5}
update r [3] {"k":3,"x":"a","y":0}
step write
step write
step m0 take 1

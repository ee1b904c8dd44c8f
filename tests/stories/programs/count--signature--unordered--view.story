# count, program signature, faults: unordered
# shows that the level of the whole view is not_converged and no more
# view record ['a'] shows: {"x":"a","n":1}; then nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view count
program signature
managers 1
streams 1
without flow control
expect record not_converged
expect view not_converged
initial r [2] {"k":2,"x":"a","y":2}
update r [3] {"k":3,"x":"a","y":2}
update r [2] {"k":2,"x":"b","y":0}
step write
step write
step m0 take 7

# selection, program changed-fields, faults: zombies
# shows that the level of one view record is not_converged and no more
# view record [1] shows: nothing; then {"k":1,"x":"a","y":0}; then nothing; then {"k":1,"x":"a","y":0}
# level of the worst view record: not_converged; of the whole view: not_converged
view selection
program changed-fields
managers 2
streams 3
expect record not_converged
expect view not_converged
update r [1] {"k":1,"x":"a","y":0}
update r [1] -
step write
step m0 take 4
step m0 takeover
step m1 take 7
step m1
step m1
step m1
step m1
step write
step m1 take 4
step m1
step m1
step m1

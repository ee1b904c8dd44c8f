# selection, program counter, faults: zombies
# shows that the level of one view record is not_converged and no more
# view record [2] shows: nothing; then {"k":2,"x":"b","y":0}; then nothing; then {"k":2,"x":"b","y":0}
# level of the worst view record: not_converged; of the whole view: not_converged
view selection
program counter
managers 3
streams 3
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"b","y":0}
update r [2] {"k":2,"x":"b","y":2}
step write
step m2 take 6
step m2 takeover
step m0 take 1
step m0
step m0
step m0
step m0

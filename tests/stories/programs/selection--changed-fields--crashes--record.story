# selection, program changed-fields, faults: crashes
# shows that the level of one view record is converged and no more
# view record [2] shows: {"k":2,"x":"b","y":0}; then {"k":2,"x":"b","y":1}; then {"k":2,"x":"a","y":0}; then {"k":2,"x":"a","y":1}; then {"k":2,"x":"a","y":0}
# level of the worst view record: converged; of the whole view: converged
view selection
program changed-fields
managers 3
streams 3
expect record converged
expect view converged
initial r [2] {"k":2,"x":"b","y":0}
update r [2] {"k":2,"x":"b","y":1}
update r [2] {"k":2,"x":"a","y":0}
step write
step write
step m2 take 2
step m2
step m2
step m2
step m2
step m2 take 2
step m2
step m2
step m2
step m2 crash

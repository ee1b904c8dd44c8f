# selection, program changed-fields, faults: crashes
# shows that the level of the whole view is weak and no more
# view record [2] shows: nothing; then {"k":2,"x":"b","y":0}; then nothing; then {"k":2,"x":"b","y":0}; then nothing
# level of the worst view record: weak; of the whole view: weak
view selection
program changed-fields
managers 3
streams 3
expect record weak
expect view weak
update r [2] {"k":2,"x":"b","y":0}
update r [2] {"k":2,"x":"b","y":2}
step write
step write
step m2 take 0
step m2
step m2
step m2
step m2
step m2 take 7
step m2
step m2
step m2
step m2 crash

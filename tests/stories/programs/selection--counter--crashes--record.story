# selection, program counter, faults: crashes
# shows that the level of one view record is weak and no more
# view record [3] shows: nothing; then {"k":3,"x":"b","y":1}; then nothing; then {"k":3,"x":"b","y":1}; then nothing
# level of the worst view record: weak; of the whole view: weak
view selection
program counter
managers 3
streams 3
expect record weak
expect view weak
update r [3] {"k":3,"x":"b","y":1}
update r [3] {"k":3,"x":"b","y":5}
step write
step m2 take 6
step write
step m2
step m2
step m2
step m2
step m2 take 3
step m2
step m2
step m2
step m2 crash

# projection-moving-key, program letter, faults: crashes
# shows that the level of one view record is weak and no more
# view record ['b', 1] shows: nothing; then {"x":"b","k":1}; then nothing; then {"x":"b","k":1}; then nothing
# level of the worst view record: weak; of the whole view: weak
view projection-moving-key
program letter
managers 1
streams 1
expect record weak
expect view weak
update r [1] {"k":1,"x":"b","y":2}
update r [1] -
step write
step m0 take 5
step m0
step m0
step m0
step m0
step write
step m0 take 7
step m0
step m0
step m0
step m0 crash

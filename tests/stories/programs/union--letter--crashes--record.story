# union, program letter, faults: crashes
# shows that the level of one view record is weak and no more
# view record [1, 'b'] shows: nothing; then {"k":1,"x":"b"}; then nothing; then {"k":1,"x":"b"}; then nothing
# level of the worst view record: weak; of the whole view: weak
view union
program letter
managers 1
streams 1
expect record weak
expect view weak
update s [1] {"k":1,"x":"b"}
update s [1] -
step write
step write
step m0 take 0
step m0
step m0
step m0
step m0
step m0
step m0 take 7
step m0
step m0
step m0
step m0
step m0 crash

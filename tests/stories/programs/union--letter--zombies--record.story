# union, program letter, faults: zombies
# shows that the level of one view record is not_converged and no more
# view record [1, 'b'] shows: nothing; then {"k":1,"x":"b"}; then nothing; then {"k":1,"x":"b"}; then nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view union
program letter
managers 3
streams 1
expect record not_converged
expect view not_converged
update s [1] {"k":1,"x":"b"}
update s [1] -
update s [1] {"k":1,"x":"b"}
step write
step m0 take 4
step write
step m0
step m0
step write
step m0
step m0 takeover
step m1 take 4
step m0
step m1
step m1
step checkpoint 0
step m1 take 5
step m1
step m1
step m1 takeover
step m2 take 7
step m2
step m2
step m2
step m2
step m2
step m2 take 7
step m2
step m2 delay
step m2
step m2

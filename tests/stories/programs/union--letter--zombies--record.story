# union, program letter, faults: zombies
# shows that the level of one view record is not_converged and no more
# view record [2, 'b'] shows: nothing; then {"k":2,"x":"b"}; then nothing; then {"k":2,"x":"b"}
# level of the worst view record: not_converged; of the whole view: not_converged
view union
program letter
managers 3
streams 2
expect record not_converged
expect view not_converged
update r [2] {"k":2,"x":"b"}
update r [2] {"k":2,"x":"a"}
step write
step write
step m1 take 4
step m1 takeover
step m2 take 1
step m2 lose
step m2
step m2
step m2
step m2
step m2 take 7
step m2
step m2 delay
step m2
step m2

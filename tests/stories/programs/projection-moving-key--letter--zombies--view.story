# projection-moving-key, program letter, faults: zombies
# shows that the level of the whole view is not_converged and no more
# view record ['b', 2] shows: nothing; then {"x":"b","k":2}; then nothing; then {"x":"b","k":2}
# level of the worst view record: not_converged; of the whole view: not_converged
view projection-moving-key
program letter
managers 3
streams 3
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"b","y":2}
update r [2] {"k":2,"x":"b","y":0}
update r [2] -
step write
step m2 take 0
step write
step m2
step m2
step m2
step m2
step checkpoint 2
step m2 take 6
step m2 takeover
step m0 take 0
step m0
step m0 delay
step m0
step m0

# projection-losing-key, program counter, faults: crashes
# shows that the level of the whole view is not_converged and no more
# view record ['b', 1] shows: nothing; then {"x":"b","y":1}
# level of the worst view record: not_converged; of the whole view: not_converged
view projection-losing-key
program counter
managers 3
streams 3
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"b","y":1}
update r [3] -
step write
step m2 take 4
step m2
step m2
step m2 lose

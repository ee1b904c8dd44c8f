# sum, program letter, faults: late
# shows that the level of the whole view is not_converged and no more
# view record ['b'] shows: nothing; then {"x":"b","total":0}; then nothing
# level of the worst view record: not_converged; of the whole view: not_converged
view sum
program letter
managers 1
streams 1
expect record not_converged
expect view not_converged
update r [3] {"k":3,"x":"b","y":0}
update r [2] {"k":2,"x":"b","y":0}
update r [3] -

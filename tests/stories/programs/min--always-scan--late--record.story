# min, program always-scan, faults: late
# shows that the level of one view record is strong and no more
# view record ['b'] shows: nothing
# level of the worst view record: strong; of the whole view: strong
view min
program always-scan
managers 1
streams 1
expect record strong
expect view strong
update r [2] {"k":2,"x":"b","y":0}
update r [2] {"k":2,"x":"a","y":1}

# selection, program signature, faults: unordered
# shows that the level of one view record is strong and no more
# view record [2] shows: nothing; then {"k":2,"x":"a","y":0}
# level of the worst view record: strong; of the whole view: strong
view selection
program signature
managers 1
streams 1
without flow control
expect record strong
expect view strong
update r [2] {"k":2,"x":"a","y":1}
update r [2] -
update r [2] {"k":2,"x":"a","y":0}
step write
step write
step write
step m0 take 4

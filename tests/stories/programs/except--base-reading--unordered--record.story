# except, program base-reading, faults: unordered
# shows that the level of one view record is strong and no more
# view record [2, 'a'] shows: nothing
# level of the worst view record: strong; of the whole view: strong
view except
program base-reading
managers 1
streams 1
without flow control
expect record strong
expect view strong
update r [2] {"k":2,"x":"a"}
update r [2] -
step write
step write
step m0 take 5

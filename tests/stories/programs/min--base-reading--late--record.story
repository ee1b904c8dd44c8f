# min, program base-reading, faults: late
# shows that the level of one view record is weak and no more
# view record ['a'] shows: {"x":"a","least":1}; then {"x":"a","least":0}; then nothing; then {"x":"a","least":5}; then nothing
# level of the worst view record: weak; of the whole view: weak
view min
program base-reading
managers 1
streams 1
expect record weak
expect view weak
initial r [3] {"k":3,"x":"a","y":1}
update r [2] {"k":2,"x":"a","y":0}
update r [2] {"k":2,"x":"b","y":0}
update r [3] {"k":3,"x":"a","y":5}
update r [3] -

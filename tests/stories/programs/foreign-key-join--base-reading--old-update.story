# foreign-key-join, program base-reading: an old update of the right row, held by a manager thought dead,
# meets a view record that came after it and has no mark of it. It must not write what it carries: found by TLC
# (specs: PerEntry_JoinEntryZombie), when the program took z from the entry and the record ended at q.
# level of the worst view record: complete; of the whole view: complete
view foreign-key-join
program base-reading
managers 2
streams 4
expect record complete
expect view complete
initial s [1] {"k":1,"z":"p"}
update s [1] {"k":1,"z":"q"}
update s [1] {"k":1,"z":"t"}
update r [2] {"k":2,"y":1}
step write
step m0 take 0
step m0 takeover
step write
step m1 take 0
step m1
step m1
step m1
step m1
step m1 take 0
step m1
step m1
step m1
step m1
step write
step m1 take 0
step m1
step m1
step m1
step m1
step m1
step m1
step m1
step m1
step m0
step m0
step m0
step m0
step m0
step m0
step m0
step m0
step m0

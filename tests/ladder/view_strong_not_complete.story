# Two base updates in one write of one record: a state of the whole view was skipped.
view sum
base r k1 x=1 y=5
base r k2 x=1 y=7
write 1 x=1 sum=12 <- r.k1:0>1 r.k2:0>1
rest
level record strong
level view strong

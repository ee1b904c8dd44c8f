# Complete for some order of the base updates, not for the recorded one.
view total
start r k1 y=0
start r k2 y=0
shows - sum=0
base r k1 y=1
base r k2 y=10
write - sum=10 <- r.k2:0>1
write - sum=11 <- r.k1:0>1
rest
expect record complete-recorded-order violated
level record complete

# The whole view is torn by a group move, though each record is complete.
view sum
start r k0 x=1 y=100
start r k1 x=1 y=5
shows 1 x=1 sum=105
base r k1 x=2 y=5
write 2 x=2 sum=5 <- r.k1:0>1
write 1 x=1 sum=100 <- r.k1:0>1
rest
level record complete
level view converged

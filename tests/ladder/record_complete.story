# The top: every base state, in order.
view rows
base r k x=1 y=1
base r k x=1 y=2
write k k=k x=1 y=1 <- r.k:0>1
write k k=k x=1 y=2 <- r.k:1>2
rest
expect record complete-recorded-order holds
level record complete
level view complete

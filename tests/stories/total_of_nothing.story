# An aggregate without groups shows a row of nothing from the start.
view total
base r k1 x=1 y=5
write - sum=5 <- r.k1:0>1
base r k1 gone
write - sum=None <- r.k1:1>2
rest
level record complete
level view complete

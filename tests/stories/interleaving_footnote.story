# Paper 001, footnote: a cut holds the whole prefix of a record, also what touched other view records before.
view count
base r k1 x=2 y=0
base r k1 gone
base r k1 x=1 y=0
write 1 x=1 count=1 <- r.k1:2>3
write 2 x=2 count=1 <- r.k1:0>1
write 2 gone <- r.k1:1>2
rest
expect record complete holds
level record complete
level view converged

# Paper 001: u1 and u3 are done before u2: ends at 20, not convergent.
view small
start r k y=5
shows k k=k y=5
base r k y=10
base r k y=20
base r k y=15
write k k=k y=10 <- r.k:0>1
write k k=k y=15 <- r.k:1>3
write k k=k y=20 <- r.k:1>2
rest
level record not converged

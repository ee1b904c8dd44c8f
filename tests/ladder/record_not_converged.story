# Below converged: the last base update never arrived.
view rows
base r k x=1 y=1
base r k x=1 y=2
write k k=k x=1 y=1 <- r.k:0>1
rest
expect record weak violated
level record not converged

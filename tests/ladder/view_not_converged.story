# The whole view: one record never arrived.
view rows
base r a x=1 y=1
base r b x=1 y=1
write a k=a x=1 y=1 <- r.a:0>1
rest
level view not converged

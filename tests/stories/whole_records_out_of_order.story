# Paper 001, selection without flow control, whole records: ends at (x1, y2), not convergent.
view rows
start r k x=1 y=1
shows k k=k x=1 y=1
base r k x=1 y=2
base r k x=2 y=2
write k k=k x=2 y=2 <- r.k:0>2
write k k=k x=1 y=2 <- r.k:0>1
rest
level record not converged

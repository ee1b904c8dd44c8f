# Paper 001, selection without flow control, changed fields only: (x2, y1) was never there; it converges.
view rows
start r k x=1 y=1
shows k k=k x=1 y=1
base r k x=1 y=2
base r k x=2 y=2
write k k=k x=2 y=1
write k k=k x=2 y=2
rest
expect record weak violated
level record converged

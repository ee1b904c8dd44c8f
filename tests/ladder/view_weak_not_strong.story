# The whole view shows a base state that is older than the one before, though each record only goes forward and back.
view both
start r k x=1
start s k x=1
shows 1 x=1
base r k x=2
base s k x=2
base r k x=1
base s k x=1
write 2 x=2
write 2 gone
rest
expect view weak violated
level view converged

# One record, seen as a whole view: back and forth between versions.
view rows
base r k x=1 y=1
base r k x=1 y=2
base r k x=1 y=3
write k k=k x=1 y=2
write k k=k x=1 y=1
write k k=k x=1 y=3
rest
level view weak

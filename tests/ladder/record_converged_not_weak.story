# Below weak: a value that was never there, then the right one.
view rows
base r k x=1 y=1
write k k=k x=9 y=9
write k k=k x=1 y=1
rest
level record converged

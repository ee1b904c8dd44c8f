# Below complete: a base state was skipped.
view rows
base r k x=1 y=1
base r k x=1 y=2
write k k=k x=1 y=2 <- r.k:0>2
rest
expect record complete violated
level record strong

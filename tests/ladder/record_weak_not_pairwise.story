# Below strong, even pairwise: a later version before an earlier one.
view rows
base r k x=1 y=1
base r k x=1 y=2
base r k x=1 y=3
write k k=k x=1 y=2
write k k=k x=1 y=1
write k k=k x=1 y=3
rest
expect record strong-pairwise violated
level record weak

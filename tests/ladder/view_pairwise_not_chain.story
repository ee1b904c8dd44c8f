# As by record: pairs are explicable, the chain is not.
view total
start r k1 y=0
start r k2 y=0
shows - sum=0
base r k1 y=1
base r k1 y=10
base r k2 y=100
base r k2 y=10
base r k2 y=1000
write - sum=1
write - sum=10
write - sum=1001
write - sum=1010
rest
expect view strong-pairwise holds
expect view strong violated
level view weak

# Between the two readings of strong (checker plan 5.1): every pair is explicable, no one chain explains all.
view total
start r k1 y=0
start r k2 y=0
base r k1 y=1
base r k1 y=10
base r k2 y=100
base r k2 y=10
base r k2 y=1000
write - sum=1
write - sum=10
write - sum=1001
write - sum=1010
shows - sum=0
rest
expect record strong-pairwise holds
expect record strong violated
level record weak

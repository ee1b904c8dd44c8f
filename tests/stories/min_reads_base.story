# Paper 001, MIN with the base re-read: view goes 4, 5, 2, 5: weak, not strong.
view min
start r k1 x=x1 y=4
shows x1 x=x1 min=4
base r k1 gone
base r k2 x=x1 y=2
base r k2 x=x1 y=5
write x1 x=x1 min=5
write x1 x=x1 min=2
write x1 x=x1 min=5
rest
expect record weak holds
expect record strong violated
level record weak

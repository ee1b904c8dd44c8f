# Paper 001, MIN that scans the base on every change of the minimum: 4, 5, 5, 5: strong.
view min
start r k1 x=x1 y=4
shows x1 x=x1 min=4
base r k1 gone
base r k2 x=x1 y=2
base r k2 x=x1 y=5
write x1 x=x1 min=5
write x1 x=x1 min=5
write x1 x=x1 min=5
rest
expect record strong holds
expect record complete violated
level record strong

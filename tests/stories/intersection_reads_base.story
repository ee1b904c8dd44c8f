# Paper 001, set intersection by base access: manager late, shows {x3} and then {x2}: not strong as a whole.
view both
start r k1 x=1
base s k1 x=3
base r k1 x=2
base r k1 x=3
base s k1 x=2
base r k1 x=2
write 3 x=3
write 3 gone
write 2 x=2
rest
expect view weak holds
level record complete

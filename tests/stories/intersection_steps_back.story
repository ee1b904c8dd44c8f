# The same with the order lost: {x2} is shown before {x3}, whose base states all come earlier.
view both
start r k1 x=2
base s k1 x=3
base r k1 x=3
base s k1 x=2
base r k1 x=2
write 2 x=2
write 2 gone
write 3 x=3
write 3 gone
write 2 x=2
rest
expect view strong violated
expect view weak holds

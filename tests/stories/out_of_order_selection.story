# Paper 001, out-of-order propagation: 5 ->10 ->20 ->15; u2 overtakes u1: convergent and weak, not strong.
view small
start r k y=5
shows k k=k y=5
base r k y=10
base r k y=20
base r k y=15
write k k=k y=20 <- r.k:0>2
write k k=k y=10 <- r.k:0>1
write k k=k y=15 <- r.k:2>3
rest
expect record weak holds
expect record strong violated
expect record strong-pairwise violated
level record weak

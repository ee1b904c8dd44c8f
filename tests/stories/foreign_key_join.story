# Paper 001, K-FK join that reads base: R={}, S={(y,z)}; i1 R(x,y); u2, u3 on S; manager late: z''' and then z''.
view join
start s y z=z0
base r x y=y
base s y z=z2
base s y z=z3
write x k=x y=y z=z3
write x k=x y=y z=z2
write x k=x y=y z=z3
rest
expect record weak holds
expect record strong violated
level record weak

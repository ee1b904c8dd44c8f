# Paper 001, concurrent propagation: two managers read first, then write; a counter-only view without test-and-set.
view sum
start r k1 x=x1 y=100
start r k2 x=x1 y=200
start r k3 x=x2 y=300
start r k4 x=x2 y=400
shows x1 x=x1 sum=300
shows x2 x=x2 sum=700
base r k2 x=x2 y=200
base r k4 x=x1 y=400
write x1 x=x1 sum=100 <- r.k2:0>1
write! x1 x=x1 sum=700 <- r.k4:0>1    # computed from 300, the update before it is lost
write x2 x=x2 sum=300 <- r.k4:0>1
write! x2 x=x2 sum=900 <- r.k2:0>1
rest
expect record linearizability violated
expect record converged violated
level record not converged

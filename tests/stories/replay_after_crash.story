# Paper 001, non-idempotent update after a crash: the insert of k3 is applied twice onto 300.
view sum
start r k1 x=x1 y=300
shows x1 x=x1 sum=300
base r k3 x=x1 y=100
write x1 x=x1 sum=400 <- r.k3:0>1
write x1 x=x1 sum=500 <- r.k3:0>1
rest
expect record certificates violated
expect record weak violated
level record not converged

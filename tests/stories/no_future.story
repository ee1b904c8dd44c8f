# A version is absorbed before its update is called: the values are right, the time is not.
view sum
write 1 x=1 sum=5 <- r.k1:0>1
base r k1 x=1 y=5
rest
expect record no-future violated
expect record strong holds

# Each record complete in its own order; the whole view in some order, not the recorded one.
view rows
base r a x=1 y=1
base r b x=1 y=1
write b k=b x=1 y=1 <- r.b:0>1
write a k=a x=1 y=1 <- r.a:0>1
rest
level record complete
level view complete
expect view complete-recorded-order violated
expect record complete-recorded-order holds

-------------------------------- MODULE Feed --------------------------------
(* H9 and H5: what an epoch reads from the feed, and who counts epochs. A host that crashes loses the tail of *)
(* its feed that was not durable, and writes other changes at the same positions afterwards: an epoch pinned  *)
(* over them is not the same twice. And if the engine counts epochs, a lost checkpoint makes it count from the *)
(* start again: buckets take new input for old, and swallow it.                                               *)
EXTENDS Naturals, Sequences

CONSTANTS Entries,   \* changes written in all
          Crashes, Losses, Off

Rule(name) == name \notin Off
Buckets == {"a", "b"}

VARIABLES feed, durable, written,    \* the stream, how much of it survives a crash, changes written so far
          pin,                       \* [from, to] of the epoch that runs; to = 0: none
          batch,                     \* what the engine counted so far
          bucket,                    \* bucket -> [signature, taken]: the changes it absorbed, in order
          done,                      \* buckets that this epoch's driver takes for done
          committed,                 \* [epoch, position]
          crashes, losses
vars == <<feed, durable, written, pin, batch, bucket, done, committed, crashes, losses>>

NoPin == [from |-> 0, to |-> 0]
Init ==
  /\ feed = <<>> /\ durable = 0 /\ written = 0
  /\ pin = NoPin
  /\ batch = 0
  /\ bucket = [b \in Buckets |-> [signature |-> 0, taken |-> <<>>]]
  /\ done = {}
  /\ committed = [epoch |-> 0, position |-> 0]
  /\ crashes = Crashes /\ losses = Losses

Write ==
  /\ written < Entries
  /\ written' = written + 1
  /\ feed' = Append(feed, written + 1)
  /\ UNCHANGED <<durable, pin, batch, bucket, done, committed, crashes, losses>>

Sync == durable < Len(feed) /\ durable' = Len(feed)
        /\ UNCHANGED <<feed, written, pin, batch, bucket, done, committed, crashes, losses>>

HostCrash ==
  /\ crashes > 0 /\ durable < Len(feed)
  /\ crashes' = crashes - 1
  /\ feed' = SubSeq(feed, 1, durable)
  /\ UNCHANGED <<durable, written, pin, batch, bucket, done, committed, losses>>

Pin ==
  /\ pin.to = 0
  /\ \E to \in (committed.position + 1)..(IF Rule("durable positions") THEN durable ELSE Len(feed)) :
       pin' = [from |-> committed.position, to |-> to]
  /\ UNCHANGED <<feed, durable, written, batch, bucket, done, committed, crashes, losses>>

\* The engine forgets how far it counted.
Loss ==
  /\ losses > 0 /\ batch > 0 /\ pin.to = 0
  /\ losses' = losses - 1
  /\ batch' = 0
  /\ UNCHANGED <<feed, durable, written, pin, bucket, done, committed, crashes>>

E == IF Rule("own ids") THEN committed.epoch + 1 ELSE batch + 1
Take(b) ==
  /\ pin.to > 0 /\ Len(feed) >= pin.to /\ b \notin done
  /\ done' = done \union {b}
  /\ bucket' = IF bucket[b].signature >= E THEN bucket
               ELSE [bucket EXCEPT ![b] = [signature |-> E, taken |-> @.taken \o SubSeq(feed, pin.from + 1, pin.to)]]
  /\ UNCHANGED <<feed, durable, written, pin, batch, committed, crashes, losses>>

Commit ==
  /\ pin.to > 0 /\ done = Buckets
  /\ committed' = [epoch |-> committed.epoch + 1, position |-> pin.to]
  /\ pin' = NoPin
  /\ batch' = batch + 1
  /\ done' = {}
  /\ UNCHANGED <<feed, durable, written, bucket, crashes, losses>>

Next == Write \/ Sync \/ HostCrash \/ Pin \/ Loss \/ Commit \/ \E b \in Buckets : Take(b)
Spec == Init /\ [][Next]_vars

\* Between epochs every bucket took the same changes, and what is durable of the feed is among what it took.
TakenInv == pin.to = 0 =>
  /\ \A a, b \in Buckets : bucket[a].taken = bucket[b].taken
  /\ \A b \in Buckets : Len(bucket[b].taken) = committed.position
  /\ \A b \in Buckets : \A n \in 1..durable : n <= committed.position => bucket[b].taken[n] = feed[n]
=============================================================================

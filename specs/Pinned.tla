------------------------------- MODULE Pinned -------------------------------
(* H4, H13, H24: what an epoch's result depends on moves while the epoch runs: the clock (a row expires), the *)
(* quarantine (a row is set aside), the plan (a column is added). Two drivers attempt the epoch, one bucket   *)
(* at a time, and either may stop anywhere; each bucket is written once an epoch, by whoever comes first.     *)
(* Whatever is not pinned differs between buckets of one epoch, and the view is that of no state at all.      *)
EXTENDS Naturals, FiniteSets

CONSTANTS Drivers, Buckets, Epochs, Off

Rule(name) == name \notin Off
Inputs == {"clock", "quarantine", "plan"}

VARIABLES world,    \* input -> how often it moved
          pin,      \* input -> its value when the epoch was pinned
          seen,     \* driver -> [input -> value] it computes with; <<>>: it has not begun
          written,  \* bucket -> [epoch, by]: which inputs it was computed from
          committed
vars == <<world, pin, seen, written, committed>>
e == committed + 1

Init ==
  /\ world = [i \in Inputs |-> 0]
  /\ pin = world
  /\ seen = [d \in Drivers |-> <<>>]
  /\ written = [b \in Buckets |-> [epoch |-> 0, by |-> world]]
  /\ committed = 0

Move(i) ==
  /\ world[i] < 2
  /\ world' = [world EXCEPT ![i] = @ + 1]
  /\ UNCHANGED <<pin, seen, written, committed>>

Begin(d) ==
  /\ committed < Epochs /\ seen[d] = <<>>
  /\ seen' = [seen EXCEPT ![d] = [i \in Inputs |-> IF Rule(i) THEN pin[i] ELSE world[i]]]
  /\ UNCHANGED <<world, pin, written, committed>>

Write(d, b) ==
  /\ seen[d] # <<>> /\ written[b].epoch < e
  /\ written' = [written EXCEPT ![b] = [epoch |-> e, by |-> seen[d]]]
  /\ UNCHANGED <<world, pin, seen, committed>>

Stop(d) ==
  /\ seen[d] # <<>>
  /\ seen' = [seen EXCEPT ![d] = <<>>]
  /\ UNCHANGED <<world, pin, written, committed>>

Commit ==
  /\ \A b \in Buckets : written[b].epoch = e
  /\ committed' = e
  /\ pin' = world
  /\ seen' = [d \in Drivers |-> <<>>]   \* a zombie meets newer buckets and stops (module Epoch)
  /\ UNCHANGED <<world, written>>

Next == Commit \/ (\E i \in Inputs : Move(i)) \/ \E d \in Drivers : Begin(d) \/ Stop(d) \/ \E b \in Buckets : Write(d, b)
Spec == Init /\ [][Next]_vars

\* All that was written in one epoch was computed from one and the same set of inputs.
OneInputInv == \A a, b \in Buckets : written[a].epoch = written[b].epoch => written[a].by = written[b].by
=============================================================================

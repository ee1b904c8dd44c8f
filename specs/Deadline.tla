------------------------------ MODULE Deadline ------------------------------
(* H27: a put that arrives after the tombstone that should shadow it was purged brings a dead row back. Puts *)
(* carry their epoch as write time, so a late one is harmless as long as something newer is still there.      *)
(* A driver sends nothing later than X after it read the pin; a request or hint lives at most Flight; the     *)
(* table keeps tombstones for Grace. The rule: X + Flight < Grace.                                            *)
EXTENDS Naturals, FiniteSets

CONSTANTS X, Flight, Grace, Horizon, Off

Rule(name) == name \notin Off

VARIABLES now,
          row,      \* [kind, epoch, since]: "none", "live", "tombstone"
          sleeper,  \* the driver of epoch 1: when it read its pin; it has not sent its put yet
          flying    \* puts on their way: [epoch, sent]
vars == <<now, row, sleeper, flying>>

Init ==
  /\ now = 0
  /\ row = [kind |-> "none", epoch |-> 0, since |-> 0]
  /\ sleeper = TRUE
  /\ flying = {}

Tick == now < Horizon /\ now' = now + 1 /\ UNCHANGED <<row, sleeper, flying>>

\* Epoch 1 puts the row (another driver did it first), epoch 2 deletes it.
PutRow == row.epoch = 0 /\ row' = [kind |-> "live", epoch |-> 1, since |-> now] /\ UNCHANGED <<now, sleeper, flying>>
DeleteRow ==
  row.kind = "live" /\ row.epoch = 1 /\ row' = [kind |-> "tombstone", epoch |-> 2, since |-> now]
  /\ UNCHANGED <<now, sleeper, flying>>

Purge == row.kind = "tombstone" /\ now >= row.since + Grace /\ row' = [row EXCEPT !.kind = "none"]
         /\ UNCHANGED <<now, sleeper, flying>>

\* The sleeper wakes up and sends its put of epoch 1; it read the pin at time 0.
Send ==
  /\ sleeper
  /\ Rule("deadline") => now <= X
  /\ sleeper' = FALSE
  /\ flying' = {[epoch |-> 1, sent |-> now]}
  /\ UNCHANGED <<now, row>>

Arrive(m) ==
  /\ m \in flying /\ now <= m.sent + Flight
  /\ flying' = flying \ {m}
  /\ row' = IF row.kind = "none" \/ m.epoch > row.epoch THEN [kind |-> "live", epoch |-> 1, since |-> now] ELSE row
  /\ UNCHANGED <<now, sleeper>>

Gone == row.kind = "none" /\ row.epoch = 2
Next == Tick \/ PutRow \/ DeleteRow \/ Purge \/ Send \/ \E m \in flying : Arrive(m)
Spec == Init /\ [][Next]_vars

\* What was deleted at epoch 2 is never live again: a live row is the put that nobody deleted yet.
NoResurrectionProp == [][(row.kind # "live" /\ row.epoch = 2) => row'.kind # "live"]_row
=============================================================================

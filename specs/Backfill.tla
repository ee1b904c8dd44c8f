------------------------------ MODULE Backfill ------------------------------
(* H23: a view added while changes go on. Each epoch pins a token T: keys up to the old T take the changes of *)
(* the epoch, keys between the old and the new T take DELTA's image after stage 0, keys beyond take nothing.  *)
(* The view adds (it is a sum), so anything taken twice or not at all shows.                                  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Keys,   \* number of base keys, in token order
          Epochs, Off

Rule(name) == name \notin Off
All == 1..Keys

VARIABLES committed, token,     \* as committed
          pin,                  \* [token, keys]: what the epoch being made is made of; token 0: none pinned
          delta,                \* key -> [now, epoch, before]
          view                  \* key -> [value, epoch]
vars == <<committed, token, pin, delta, view>>

NoPin == [token |-> 0, keys |-> {}]
e == committed + 1

Init ==
  /\ committed = 0
  /\ token = 0
  /\ pin = NoPin
  /\ delta = [k \in All |-> [now |-> 1, epoch |-> 0, before |-> 1]]
  /\ view = [k \in All |-> [value |-> 0, epoch |-> 0]]

Pin ==
  /\ pin.token = 0 /\ committed < Epochs
  /\ \E t \in {n \in 1..Keys : n >= token} : \E keys \in SUBSET All : pin' = [token |-> t, keys |-> keys]
  /\ UNCHANGED <<committed, token, delta, view>>

\* Stage 0: a change adds one to a base row. A replay finds the row at e and changes nothing.
Stage0(k) ==
  /\ pin.token > 0 /\ k \in pin.keys /\ delta[k].epoch < e
  /\ delta' = [delta EXCEPT ![k] = [now |-> @.now + 1, epoch |-> e, before |-> @.now]]
  /\ UNCHANGED <<committed, token, pin, view>>

Barrier == \A k \in pin.keys : delta[k].epoch = e

Change(k) == IF k \in pin.keys THEN 1 ELSE 0

\* The view's stage: what key k contributes in this epoch, once (the bucket's signature sees to that).
Stage1(k) ==
  /\ pin.token > 0 /\ view[k].epoch < e
  /\ Rule("image after stage 0") => Barrier
  /\ LET inside == k <= token
         entering == k > token /\ k <= pin.token
         add == CASE inside -> Change(k)
                  [] entering -> delta[k].now + IF Rule("image instead of change") THEN 0 ELSE Change(k)
                  [] OTHER -> IF Rule("drop beyond") THEN 0 ELSE Change(k)
     IN view' = [view EXCEPT ![k] = [value |-> @.value + add, epoch |-> e]]
  /\ UNCHANGED <<committed, token, pin, delta>>

Commit ==
  /\ pin.token > 0 /\ Barrier /\ \A k \in All : view[k].epoch = e
  /\ committed' = e
  /\ token' = pin.token
  /\ pin' = NoPin
  /\ UNCHANGED <<delta, view>>

Next == Pin \/ Commit \/ \E k \in All : Stage0(k) \/ Stage1(k)
Spec == Init /\ [][Next]_vars

\* Between epochs: up to the token the view is the base, beyond it there is nothing.
FilledInv == pin.token = 0 => \A k \in All : view[k].value = IF k <= token THEN delta[k].now ELSE 0
=============================================================================

------------------------------- MODULE Caches -------------------------------
(* H8: a driver keeps images of DELTA rows in memory. DELTA is written by puts, which no condition guards, so *)
(* an image that missed an epoch (run in tasks, or by another driver) silently drops what that epoch took.    *)
(* Every epoch e adds write e to the one row; the row must hold all writes of all committed epochs.           *)
EXTENDS Naturals, FiniteSets

CONSTANTS Drivers, Epochs, Off

Rule(name) == name \notin Off
None == [epoch |-> 0, known |-> FALSE, writes |-> {}]

VARIABLES committed, row, cache, leader, put
vars == <<committed, row, cache, leader, put>>
e == committed + 1

Init ==
  /\ committed = 0
  /\ row = [epoch |-> 0, writes |-> {}]
  /\ cache = [d \in Drivers |-> None]
  /\ leader \in Drivers
  /\ put = FALSE         \* whether the leader takes the row of this epoch for written

\* The leader computes the row from its image, or from the store, and remembers what it computed.
Compute ==
  /\ committed < Epochs /\ ~put /\ cache[leader].epoch # e
  /\ LET from == IF cache[leader].known THEN cache[leader].writes ELSE row.writes
     IN cache' = [cache EXCEPT ![leader] = [epoch |-> e, known |-> TRUE, writes |-> from \union {e}]]
  /\ UNCHANGED <<committed, row, leader, put>>

\* It puts the row; or the put times out, and the image alone says that it was done.
Put ==
  /\ cache[leader].epoch = e /\ ~put
  /\ \/ row' = [epoch |-> e, writes |-> cache[leader].writes]
     \/ ~Rule("put again") /\ UNCHANGED row
  /\ put' = TRUE
  /\ UNCHANGED <<committed, cache, leader>>

\* A large epoch runs in tasks: they read the store and know no image.
InTasks ==
  /\ committed < Epochs /\ ~put
  /\ row' = [epoch |-> e, writes |-> row.writes \union {e}]
  /\ cache' = IF Rule("emptied after tasks") THEN [cache EXCEPT ![leader] = None] ELSE cache
  /\ put' = TRUE
  /\ UNCHANGED <<committed, leader>>

Commit ==
  /\ put
  /\ committed' = e
  /\ put' = FALSE
  /\ UNCHANGED <<row, cache, leader>>

\* Another driver leads; what it remembers is of an earlier term.
Lead(d) ==
  /\ d # leader /\ ~put
  /\ leader' = d
  /\ cache' = IF Rule("a term's cache") THEN [cache EXCEPT ![d] = None] ELSE cache
  /\ UNCHANGED <<committed, row, put>>

Next == Compute \/ Put \/ InTasks \/ Commit \/ \E d \in Drivers : Lead(d)
Spec == Init /\ [][Next]_vars

CommittedInv == put \/ {w \in row.writes : w <= committed} = 1..committed
=============================================================================

------------------------------- MODULE Chunks -------------------------------
(* H7: a change too big for one statement. One bucket, its rows written in chunks of one row in a fixed      *)
(* order; the signature says (epoch, chunk, last). Each epoch adds one to every row. Two drivers, each of    *)
(* which may stop anywhere; requests may be left behind.                                                     *)
EXTENDS Naturals, Sequences

CONSTANTS Drivers, Epochs, Lates, Off

Rule(name) == name \notin Off
Order == <<"x", "y">>
Rows == {"x", "y"}
Last == Len(Order)

VARIABLES committed, signature, rows, driver, late, lates
vars == <<committed, signature, rows, driver, late, lates>>

Rest == [at |-> "start", e |-> 0, read |-> [epoch |-> 0, chunk |-> Last], values |-> [k \in Rows |-> 0]]
Init ==
  /\ committed = 0
  /\ signature = [epoch |-> 0, chunk |-> Last]
  /\ rows = [k \in Rows |-> [now |-> 0, epoch |-> 0, before |-> 0]]
  /\ driver = [d \in Drivers |-> Rest]
  /\ late = {}
  /\ lates = Lates

Done(s, e) == s.epoch = e /\ (Rule("last") => s.chunk = Last)

\* The state as of e - 1, row by row: a row already at e gives its image before.
Before(k, e) == IF rows[k].epoch = e /\ Rule("row by row") THEN rows[k].before ELSE rows[k].now

Read(d) ==
  /\ driver[d].at \in {"start", "read"}
  /\ LET e == IF driver[d].at = "start" THEN committed + 1 ELSE driver[d].e IN
     /\ e <= Epochs
     /\ driver' = [driver EXCEPT ![d] =
          CASE signature.epoch > e -> Rest
            [] Done(signature, e) -> [Rest EXCEPT !.at = "commit", !.e = e, !.values = [k \in Rows |-> Before(k, e)]]
            [] OTHER -> [at |-> "write", e |-> e, read |-> signature, values |-> [k \in Rows |-> Before(k, e)]]]
  /\ UNCHANGED <<committed, signature, rows, late, lates>>

\* The next chunk of this epoch: after the one the signature tells of, or the first.
Chunk(want) == IF want.read.epoch = want.e THEN want.read.chunk + 1 ELSE 1
Accepts(want) == Rule("condition") => signature = want.read

Apply(want) ==
  LET k == Order[Chunk(want)] IN
  /\ signature' = [epoch |-> want.e, chunk |-> Chunk(want)]
  /\ rows' = [rows EXCEPT ![k] = [now |-> want.values[k] + 1, epoch |-> want.e, before |-> want.values[k]]]

Write(d) ==
  /\ driver[d].at = "write"
  /\ \/ /\ IF Accepts(driver[d]) THEN Apply(driver[d]) ELSE UNCHANGED <<signature, rows>>
        /\ UNCHANGED <<late, lates>>
     \/ /\ lates > 0 /\ lates' = lates - 1 /\ late' = late \union {driver[d]}
        /\ UNCHANGED <<signature, rows>>
  /\ driver' = [driver EXCEPT ![d] = [Rest EXCEPT !.at = "read", !.e = driver[d].e]]
  /\ UNCHANGED committed

Commit(d) ==
  /\ driver[d].at = "commit"
  /\ committed' = IF committed = driver[d].e - 1 THEN driver[d].e ELSE committed
  /\ driver' = [driver EXCEPT ![d] = Rest]
  /\ UNCHANGED <<signature, rows, late, lates>>

Arrive(want) ==
  /\ late' = late \ {want}
  /\ (Accepts(want) /\ Apply(want)) \/ UNCHANGED <<signature, rows>>
  /\ UNCHANGED <<committed, driver, lates>>

Next == (\E d \in Drivers : Read(d) \/ Write(d) \/ Commit(d)) \/ \E want \in late : Arrive(want)
Spec == Init /\ [][Next]_vars

\* As of the committed epoch every row has been added to once an epoch.
CommittedInv == \A k \in Rows : committed = IF rows[k].epoch <= committed THEN rows[k].now ELSE rows[k].before

\* A driver about to commit has told the next stage the right changes: from the image before to one more.
EmittedInv == \A d \in Drivers : driver[d].at = "commit" /\ driver[d].e = committed + 1 =>
                \A k \in Rows : driver[d].values[k] = committed
=============================================================================

------------------------------ MODULE Published ------------------------------
(* H22, H29: one published row on three replicas, read by plain CQL. The put of epoch e reaches replicas one *)
(* by one and is acknowledged by two of three before e is committed. A reader that asks two replicas (QUORUM) *)
(* and writes back what it found before it answers never steps back; one replica (ONE) may be behind.         *)
EXTENDS Naturals, FiniteSets

CONSTANTS Epochs, Strangers, \* writes by somebody else than cvs, with a wall clock as write time
          Off

Rule(name) == name \notin Off
Replicas == {1, 2, 3}
WallClock == 100   \* any wall clock is larger than any epoch

VARIABLES replica,   \* replica -> [time, value]: a value is the epoch it is of; 0 is the stranger's
          committed, last, token, strangers
vars == <<replica, committed, last, token, strangers>>
e == committed + 1

Init ==
  /\ replica = [r \in Replicas |-> [time |-> 0, value |-> 1]]
  /\ committed = 0
  /\ last = 0        \* the newest time an answer had
  /\ token = TRUE    \* whether an answer asked for after a commit showed it
  /\ strangers = Strangers

Newer(old, new) == IF new.time > old.time THEN new ELSE old
Put(r) ==
  /\ committed < Epochs
  /\ replica' = [replica EXCEPT ![r] = Newer(@, [time |-> e, value |-> e])]
  /\ UNCHANGED <<committed, last, token, strangers>>

Commit ==
  /\ committed < Epochs
  /\ Rule("acknowledged at quorum") => Cardinality({r \in Replicas : replica[r].time >= e}) >= 2
  /\ committed' = e
  /\ UNCHANGED <<replica, last, token, strangers>>

Asked == IF Rule("quorum") THEN {rs \in SUBSET Replicas : Cardinality(rs) = 2} ELSE {{r} : r \in Replicas}
Read ==
  \E rs \in Asked :
    LET newest == CHOOSE row \in {replica[r] : r \in rs} : \A r \in rs : replica[r].time <= row.time
    IN /\ last' = newest.time
       /\ token' = (newest.time >= committed)
       /\ replica' = IF Rule("blocking read repair")
                     THEN [r \in Replicas |-> IF r \in rs THEN newest ELSE replica[r]] ELSE replica
       /\ UNCHANGED <<committed, strangers>>

Stranger ==
  /\ strangers > 0
  /\ strangers' = strangers - 1
  /\ replica' = [r \in Replicas |-> [time |-> WallClock, value |-> 0]]
  /\ UNCHANGED <<committed, last, token>>

Next == Commit \/ Read \/ Stranger \/ \E r \in Replicas : Put(r)
Spec == Init /\ [][Next]_vars

\* One reader's answers, or those of two who talk to each other, never step back.
ForwardProp == [][last' >= last]_last

\* What is committed is shown to whoever asks afterwards.
TokenInv == token

\* Two of three replicas hold what cvs wrote last.
HoldsInv == Cardinality({r \in Replicas : replica[r].time >= committed /\ replica[r].value > 0}) >= 2 \/ committed = 0
=============================================================================

----------------------------- MODULE ReadRepair -----------------------------
(* H28: a test-and-set changes a bucket's signature and two rows at once, but its commit reaches the replicas *)
(* one by one, and a plain QUORUM read repairs only the cells it asked for. A later read may then see the new *)
(* signature, which was repaired, beside an old row, which was not. A SERIAL read first finishes the round.   *)
EXTENDS Naturals, FiniteSets

CONSTANTS Epochs, Off

Rule(name) == name \notin Off
Replicas == {1, 2, 3}
Cells == {"signature", "x", "y"}
Quorums == {rs \in SUBSET Replicas : Cardinality(rs) = 2}

VARIABLES replica, accepted, answer
vars == <<replica, accepted, answer>>

Init ==
  /\ replica = [r \in Replicas |-> [c \in Cells |-> 0]]   \* a cell's value is the epoch it is of
  /\ accepted = 0                                         \* the round accepted last; all replicas promised it
  /\ answer = [c \in {"signature"} |-> 0]

\* A round is accepted when the one before is known to be in place; its commit reaches replicas one by one.
InPlace(n) == Cardinality({r \in Replicas : \A c \in Cells : replica[r][c] >= n}) >= 2
Accept == accepted < Epochs /\ InPlace(accepted) /\ accepted' = accepted + 1 /\ UNCHANGED <<replica, answer>>
Arrive(r) ==
  /\ \E c \in Cells : replica[r][c] < accepted
  /\ replica' = [replica EXCEPT ![r] = [c \in Cells |-> accepted]]
  /\ UNCHANGED <<accepted, answer>>

Max(rs, at, c) == CHOOSE v \in {at[r][c] : r \in rs} : \A r \in rs : at[r][c] <= v

\* A driver reads the signature and one of the rows, from any two replicas.
Read(row) ==
  LET asked == {"signature", row} IN
  \E rs \in Quorums :
    LET now == IF Rule("serial") THEN [r \in Replicas |-> IF r \in rs THEN [c \in Cells |-> accepted] ELSE replica[r]]
               ELSE replica
        found == [c \in asked |-> Max(rs, now, c)]
    IN /\ answer' = found
       /\ replica' = [r \in Replicas |-> [c \in Cells |-> IF r \in rs /\ c \in asked THEN found[c] ELSE now[r][c]]]
       /\ UNCHANGED accepted

Next == Accept \/ (\E r \in Replicas : Arrive(r)) \/ \E row \in {"x", "y"} : Read(row)
Spec == Init /\ [][Next]_vars

\* Signature and rows of one answer are of one commit (every epoch changes every row here).
OneCommitInv == \A c \in DOMAIN answer : answer[c] = answer["signature"]
=============================================================================

----------------------------- MODULE SmallTable -----------------------------
(* H11: a stage reads a small table, copied to every worker, while the same epoch writes that table row by   *)
(* row. The table's own changes reach the stage as changes; what is read must be the table as of e - 1, or    *)
(* a change of it is taken twice by those who read late. Each epoch adds one to every row of the table.       *)
EXTENDS Naturals, FiniteSets

CONSTANTS Rows, Workers, Epochs, Off

Rule(name) == name \notin Off

VARIABLES committed, table, read, sum
vars == <<committed, table, read, sum>>
e == committed + 1

\* Each worker keeps the sum of the table: what it read as of e - 1, plus the changes of e.
Init ==
  /\ committed = 0
  /\ table = [r \in Rows |-> [now |-> 0, epoch |-> 0, before |-> 0]]
  /\ read = [w \in Workers |-> [r \in Rows |-> <<>>]]
  /\ sum = [w \in Workers |-> 0]

Write(r) ==
  /\ committed < Epochs /\ table[r].epoch < e
  /\ table' = [table EXCEPT ![r] = [now |-> @.now + 1, epoch |-> e, before |-> @.now]]
  /\ UNCHANGED <<committed, read, sum>>

AsOf(row) == IF Rule("as of before") /\ row.epoch = e THEN row.before ELSE row.now

ReadRow(w, r) ==
  /\ committed < Epochs /\ read[w][r] = <<>>
  /\ read' = [read EXCEPT ![w][r] = <<AsOf(table[r])>>]
  /\ UNCHANGED <<committed, table, sum>>

RECURSIVE Total(_, _)
Total(w, rs) == IF rs = {} THEN 0 ELSE LET r == CHOOSE r \in rs : TRUE IN read[w][r][1] + Total(w, rs \ {r})

Commit ==
  /\ \A r \in Rows : table[r].epoch = e
  /\ \A w \in Workers : \A r \in Rows : read[w][r] # <<>>
  /\ committed' = e
  /\ sum' = [w \in Workers |-> Total(w, Rows) + Cardinality(Rows)]
  /\ read' = [w \in Workers |-> [r \in Rows |-> <<>>]]
  /\ UNCHANGED table

Next == Commit \/ \E r \in Rows : Write(r) \/ \E w \in Workers : ReadRow(w, r)
Spec == Init /\ [][Next]_vars

OnceInv == \A w \in Workers : sum[w] = committed * Cardinality(Rows)
=============================================================================

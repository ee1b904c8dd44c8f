----------------------------- MODULE Scenarios -----------------------------
(* Small base histories, by name: the versions of each base record, the first being the initial one.  *)
(* Several are the counter-examples of paper 001.                                                     *)
EXTENDS ViewClasses

CONSTANT Scenario

Row(x, y) == [x |-> x, y |-> y]

Versions(r) ==
  CASE Scenario = "moves" ->         \* two records change groups in opposite directions (lost updates)
         IF r = "r1" THEN <<Row("a", 1), Row("b", 1), Row("a", 2)>> ELSE <<Row("b", 2), Row("a", 2), Gone>>
    [] Scenario = "stays" ->         \* one group only: what the whole view shows is what its record shows
         IF r = "r1" THEN <<Row("a", 1), Row("a", 2), Gone>> ELSE <<Gone, Row("a", 3), Row("a", 2)>>
    [] Scenario = "comes_and_goes" -> \* a group dies and is born again (zombies resurrect it)
         IF r = "r1" THEN <<Gone, Row("a", 1), Gone, Row("a", 2)>> ELSE <<Row("b", 1), Row("b", 2)>>
    [] Scenario = "zero_sum" ->      \* a sum equal to y with another row in the group
         IF r = "r1" THEN <<Row("a", 2), Gone>> ELSE <<Row("a", 0), Row("a", 0)>>
    [] Scenario = "limits" ->        \* selection y < 3: in, in, out, in
         IF r = "r1" THEN <<Row("a", 1), Row("b", 2), Row("b", 4), Row("a", 2)>> ELSE <<Gone, Row("a", 2), Gone>>
    [] Scenario = "min_paper" ->     \* paper 2.1.3: 4, then 2, which becomes 5
         IF r = "r1" THEN <<Row("a", 4), Gone>> ELSE <<Gone, Row("a", 2), Row("a", 5)>>
    [] Scenario = "min_stuck" ->     \* ... and then the 5 goes too
         IF r = "r1" THEN <<Row("a", 4), Gone>> ELSE <<Gone, Row("a", 2), Row("a", 5), Gone>>
    [] Scenario = "foreign_key" ->   \* paper 2.2: the referenced row changes twice around an insert
         IF r = "r1" THEN <<Gone, Row("a", 7)>> ELSE <<Row("a", 1), Row("a", 2), Row("a", 3)>>
    [] Scenario = "both_sides" ->    \* the left record moves between join values while the right side changes
         CASE r = "r1" -> <<Gone, Row("a", 7), Row("b", 7)>>
           [] r = "s1" -> <<Row("a", 1), Row("a", 2)>>
           [] OTHER    -> <<Row("b", 4), Row("b", 5)>>
    [] Scenario = "sets" ->          \* paper 2.4: one element wanders through both relations
         IF r = "r1" THEN <<Row("p", 0), Row("q", 0), Row("o", 0)>> ELSE <<Gone, Row("o", 0), Row("q", 0)>>
    [] Scenario = "sets_again" ->    \* the left element is rewritten while the right one comes and goes
         IF r = "r1" THEN <<Row("o", 0), Row("o", 1), Row("o", 2)>> ELSE <<Gone, Row("o", 0), Gone>>

Length(r) == Len(Versions(r)) - 1
RowsAt(cut) == [r \in Records |-> Versions(r)[cut[r] + 1]]
Keys == IF Program \in OneToOne THEN Records
        ELSE IF Program \in JoinRead THEN {r \in Records : OnLeft(r)}
        ELSE UNION {UNION {KeysOf(r, Versions(r)[i]) : i \in 1..Len(Versions(r))} : r \in Records}
=============================================================================

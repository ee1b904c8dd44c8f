----------------------------- MODULE Scenarios -----------------------------
(* Small base histories, by name: the versions of each base record, the first being the initial one.  *)
(* Several are the counter-examples of paper 001.                                                     *)
EXTENDS ViewClasses

CONSTANT Scenario

Row(x, y) == [x |-> x, y |-> y]

Told(r) ==
  CASE Scenario = "moves" ->         \* two records change groups in opposite directions (lost updates)
         IF r = "r1" THEN <<Row("a", 1), Row("b", 1), Row("a", 2)>> ELSE <<Row("b", 2), Row("a", 2), Gone>>
    [] Scenario = "two_of_three" ->  \* one of three rows moves there and back: always one group has two
         CASE r = "r1" -> <<Row("a", 1), Row("b", 1), Row("a", 1)>>
           [] r = "r2" -> <<Row("a", 2)>>
           [] OTHER    -> <<Row("b", 3)>>
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
    [] Scenario = "min_moves" ->     \* ... while the 4 goes to another group
         IF r = "r1" THEN <<Row("a", 4), Row("b", 4)>> ELSE <<Gone, Row("a", 2), Row("a", 5), Gone>>
    [] Scenario = "fields" ->        \* paper 2.3: one column changes there and back, then the other
         IF r = "r1" THEN <<Row("a", 1), Row("b", 1), Row("a", 1), Row("a", 2)>> ELSE <<Gone, Row("a", 2)>>
    [] Scenario = "foreign_key" ->   \* paper 2.2: the referenced row changes twice around an insert
         IF r = "r1" THEN <<Gone, Row("a", 7)>> ELSE <<Row("a", 1), Row("a", 2), Row("a", 3)>>
    [] Scenario = "two_children" ->  \* ... and two rows refer to it
         CASE r = "r1" -> <<Gone, Row("a", 7)>>
           [] r = "r2" -> <<Row("a", 8)>>
           [] OTHER    -> <<Row("a", 1), Row("a", 2), Row("a", 3)>>
    [] Scenario = "both_sides" ->    \* the left record moves between join values while the right side changes
         CASE r = "r1" -> <<Gone, Row("a", 7), Row("b", 7)>>
           [] r = "s1" -> <<Row("a", 1), Row("a", 2)>>
           [] OTHER    -> <<Row("b", 4), Row("b", 5)>>
    [] Scenario = "there_and_back" -> \* the left record has a partner wherever it is
         CASE r = "r1" -> <<Row("a", 7), Row("b", 7), Row("a", 7)>>
           [] r = "s1" -> <<Row("a", 1), Row("a", 2)>>
           [] OTHER    -> <<Row("b", 4)>>
    [] Scenario = "top" ->           \* three rows for two places
         CASE r = "r1" -> <<Row("a", 3), Row("a", 1), Gone>>
           [] r = "r2" -> <<Gone, Row("a", 2), Row("a", 4)>>
           [] OTHER    -> <<Row("a", 2), Gone>>
    [] Scenario = "not_in" ->        \* a null among the values empties the view, an empty right side fills it
         IF r = "r1" THEN <<Row("p", 0), Row("q", 0), Row(Null, 0)>> ELSE <<Gone, Row("q", 0), Row(Null, 0), Gone>>
    [] Scenario = "sets" ->          \* paper 2.4: one element wanders through both relations
         IF r = "r1" THEN <<Row("p", 0), Row("q", 0), Row("o", 0)>> ELSE <<Gone, Row("o", 0), Row("q", 0)>>
    [] Scenario = "set_stale" ->     \* the left element comes while the same comes on the right, and both stay
         IF r = "r1" THEN <<Row("q", 0), Row("o", 0)>> ELSE <<Gone, Row("o", 0)>>
    [] Scenario = "set_moves" ->     \* the left element goes and comes back, and the right one is never the same
         IF r = "r1" THEN <<Row("o", 0), Row("q", 0), Row("o", 0)>> ELSE <<Gone, Row("p", 0), Gone>>
    [] Scenario = "sets_again" ->    \* the left element goes and comes back while the right one comes and goes
         IF r = "r1" THEN <<Row("o", 0), Row("q", 0), Row("o", 0)>> ELSE <<Gone, Row("o", 0), Gone>>

Line == [r \in Records |-> Told(r)]     \* a table, because TLC computes a constant once
Versions(r) == Line[r]
Length(r) == Len(Versions(r)) - 1
RowsAt(cut) == [r \in Records |-> Versions(r)[cut[r] + 1]]
Keys == IF Program \in OneToOne THEN Records
        ELSE IF Program \in JoinRead THEN {r \in Records : OnLeft(r)}
        ELSE UNION {UNION {KeysOf(r, Versions(r)[i]) : i \in 1..Len(Versions(r))} : r \in Records}
=============================================================================

---------------------------- MODULE ViewClasses ----------------------------
(* The view classes of paper 001: for each program which view records a row touches, how a stored view *)
(* record absorbs one base update, what a reader sees of it, and, written independently, what the view *)
(* definition says (Recompute). A row has x (group, foreign key, element) and y (value, payload).      *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Program, Records, Ys

Gone == [x |-> "-", y |-> 0]
Alive(row) == row # Gone
N(row) == IF Alive(row) THEN 1 ELSE 0
OnLeft(rec) == rec \in {"r1", "r2"}        \* the other records, s1 and s2, belong to the second base table
Limit == 3                                  \* selection: y < Limit

Grouped == {"count", "sum", "sum_without_count", "avg", "min", "min_paper", "min_scan"}
JoinRead == {"join_read"}                   \* K-FK join, paper's Algorithm 10: reads the base
Reverse == {"join_reverse"}                 \* both sides kept in the partition of the join value
SetPrograms == {"union", "intersection", "difference"}
SetRead == {"intersection_read"}            \* reads the other base table instead of keeping both counts
OneToOne == {"selection", "projection"}
BaseReading == {"min_paper", "min_scan"} \union JoinRead \union SetRead

\* The view record a live row contributes to.
KeyOf(rec, row) ==
  CASE Program \in OneToOne \union JoinRead -> rec
    [] Program = "projection_rekeyed" -> <<row.x, rec>>
    [] OTHER -> row.x

Contributes(rec, row) ==
  /\ Alive(row)
  /\ Program = "selection" => row.y < Limit
  /\ Program \in JoinRead => OnLeft(rec)

KeysOf(rec, row) == IF Contributes(rec, row) THEN {KeyOf(rec, row)} ELSE {}

Empty ==
  CASE Program \in {"count", "sum", "avg", "sum_without_count"} -> [n |-> 0, s |-> 0]
    [] Program = "min" -> [y \in Ys |-> 0]
    [] Program \in {"min_paper", "min_scan"} -> [n |-> 0, m |-> 0]
    [] Program \in OneToOne \union {"projection_rekeyed"} -> Gone
    [] Program \in JoinRead -> [left |-> Gone, right |-> Gone]
    [] Program \in Reverse -> [r \in Records |-> Gone]
    [] Program \in SetPrograms -> [left |-> 0, right |-> 0]
    [] Program \in SetRead -> [member |-> 0]

Reduce(n, y) == IF n >= y THEN n - y ELSE 0  \* Naturals: an invalid state stays a number

\* A stored value after one base update moved this record's contribution from row `old` to row `new`
\* (Gone: none). `read` is what a base-reading program saw in the base.
Absorb(value, rec, old, new, read) ==
  CASE Program \in {"count", "sum", "avg"} ->
         [n |-> Reduce(value.n + N(new), N(old)), s |-> Reduce(value.s + new.y, old.y)]
    [] Program = "sum_without_count" ->      \* the paper's delete: a record whose sum equals y is deleted
         IF Alive(old) /\ ~Alive(new) /\ value.s = old.y THEN Empty
         ELSE [n |-> 1, s |-> Reduce(value.s + new.y, old.y)]
    [] Program = "min" ->
         [y \in Ys |-> Reduce(value[y] + (IF Alive(new) /\ new.y = y THEN 1 ELSE 0),
                              IF Alive(old) /\ old.y = y THEN 1 ELSE 0)]
    [] Program = "min_scan" -> read
    [] Program = "min_paper" ->
         IF Alive(new)
         THEN CASE value.n = 0 \/ new.y < value.m -> [n |-> 1, m |-> new.y]
                [] value.n > 0 /\ new.y = value.m -> [value EXCEPT !.n = @ + 1]
                [] OTHER -> value
         ELSE CASE value.n = 0 \/ old.y # value.m -> value
                [] value.n > 1 /\ old.y = value.m -> [value EXCEPT !.n = @ - 1]
                [] OTHER -> IF read.n = 0 THEN read ELSE [read EXCEPT !.n = 1]
    [] Program \in OneToOne \union {"projection_rekeyed"} -> new
    [] Program \in Reverse -> [value EXCEPT ![rec] = new]
    [] Program \in JoinRead ->
         IF OnLeft(rec) THEN [left |-> new, right |-> IF Alive(new) THEN read ELSE Gone]
         ELSE [value EXCEPT !.right = new]
    [] Program \in SetPrograms ->
         IF OnLeft(rec) THEN [value EXCEPT !.left = Reduce(@ + N(new), N(old))]
         ELSE [value EXCEPT !.right = Reduce(@ + N(new), N(old))]
    [] Program \in SetRead -> [member |-> IF Alive(new) THEN read.member ELSE 0]

Least(ys) == CHOOSE y \in ys : \A other \in ys : y <= other

Member(left, right) ==
  CASE Program = "union" -> left \/ right
    [] Program \in {"intersection", "intersection_read"} -> left /\ right
    [] Program = "difference" -> left /\ ~right

\* What a reader sees of a stored value: <<>> is "no record".
ShownOf(value) ==
  CASE Program = "count" -> IF value.n = 0 THEN <<>> ELSE <<value.n>>
    [] Program \in {"sum", "sum_without_count"} -> IF value.n = 0 THEN <<>> ELSE <<value.s>>
    [] Program = "avg" -> IF value.n = 0 THEN <<>> ELSE <<(value.s * 12) \div value.n>>
    [] Program = "min" -> LET ys == {y \in Ys : value[y] > 0} IN IF ys = {} THEN <<>> ELSE <<Least(ys)>>
    [] Program \in {"min_paper", "min_scan"} -> IF value.n = 0 THEN <<>> ELSE <<value.m>>
    [] Program = "selection" -> IF Alive(value) THEN <<value.x, value.y>> ELSE <<>>
    [] Program \in {"projection", "projection_rekeyed"} -> IF Alive(value) THEN <<value.x>> ELSE <<>>
    [] Program \in Reverse ->
         {<<r, s, value[r].y, value[s].y>> : r \in {q \in Records : OnLeft(q) /\ Alive(value[q])},
                                              s \in {q \in Records : ~OnLeft(q) /\ Alive(value[q])}}
    [] Program \in JoinRead ->
         IF Alive(value.left) /\ Alive(value.right) THEN <<value.left.x, value.left.y, value.right.y>> ELSE <<>>
    [] Program \in SetPrograms -> IF Member(value.left > 0, value.right > 0) THEN <<"in">> ELSE <<>>
    [] Program \in SetRead -> IF value.member > 0 THEN <<"in">> ELSE <<>>

RECURSIVE SumOf(_, _)
SumOf(rows, rs) == IF rs = {} THEN 0 ELSE LET r == CHOOSE r \in rs : TRUE IN rows[r].y + SumOf(rows, rs \ {r})

\* What the view definition says view record k shows when the base rows are these: independent of Absorb.
Recompute(rows, k) ==
  LET inside == {r \in Records : Alive(rows[r]) /\ rows[r].x = k}
      left   == {r \in inside : OnLeft(r)}
      right  == {r \in inside : ~OnLeft(r)}
  IN
  CASE Program = "count" -> IF inside = {} THEN <<>> ELSE <<Cardinality(inside)>>
    [] Program \in {"sum", "sum_without_count"} -> IF inside = {} THEN <<>> ELSE <<SumOf(rows, inside)>>
    [] Program = "avg" -> IF inside = {} THEN <<>> ELSE <<(SumOf(rows, inside) * 12) \div Cardinality(inside)>>
    [] Program \in {"min", "min_paper", "min_scan"} ->
         IF inside = {} THEN <<>> ELSE <<Least({rows[r].y : r \in inside})>>
    [] Program = "selection" -> IF Alive(rows[k]) /\ rows[k].y < Limit THEN <<rows[k].x, rows[k].y>> ELSE <<>>
    [] Program = "projection" -> IF Alive(rows[k]) THEN <<rows[k].x>> ELSE <<>>
    [] Program = "projection_rekeyed" -> IF rows[k[2]].x = k[1] THEN <<k[1]>> ELSE <<>>
    [] Program \in Reverse -> {<<r, s, rows[r].y, rows[s].y>> : r \in left, s \in right}
    [] Program \in JoinRead ->
         LET match == {s \in Records : ~OnLeft(s) /\ Alive(rows[s]) /\ rows[s].x = rows[k].x}
         IN IF OnLeft(k) /\ Alive(rows[k]) /\ match # {}
            THEN <<rows[k].x, rows[k].y, rows[CHOOSE s \in match : TRUE].y>> ELSE <<>>
    [] Program \in SetPrograms \union SetRead -> IF Member(left # {}, right # {}) THEN <<"in">> ELSE <<>>

\* What a base-reading program reads for view record k when the base rows are these.
BaseRead(rows, rec, new, k) ==
  CASE Program \in {"min_paper", "min_scan"} ->
         LET inside == {r \in Records : Alive(rows[r]) /\ rows[r].x = k}
         IN IF inside = {} THEN [n |-> 0, m |-> 0] ELSE [n |-> 1, m |-> Least({rows[r].y : r \in inside})]
    [] Program \in JoinRead ->
         LET match == {s \in Records : ~OnLeft(s) /\ Alive(rows[s]) /\ rows[s].x = new.x}
         IN IF match = {} THEN Gone ELSE rows[CHOOSE s \in match : TRUE]
    [] Program \in SetRead -> \* the other relation only, as in the paper
         [member |-> IF \E r \in Records : OnLeft(r) # OnLeft(rec) /\ Alive(rows[r]) /\ rows[r].x = k THEN 1 ELSE 0]
=============================================================================

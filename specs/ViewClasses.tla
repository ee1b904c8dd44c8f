---------------------------- MODULE ViewClasses ----------------------------
(* The view classes of paper 001 and the programs of cvs/programs: for each which view records a row touches, *)
(* how a stored view record absorbs one base update, what a reader sees of it, and, written independently,    *)
(* what the view definition says (Recompute). A row has x (group, join value, element; "?" is null) and y     *)
(* (value, payload). MAX is MIN upside down.                                                                  *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Program, Records, Ys

Gone == [x |-> "-", y |-> 0]
Null == "?"
Alive(row) == row # Gone
N(row) == IF Alive(row) THEN 1 ELSE 0
OnLeft(rec) == rec \in {"r1", "r2"}        \* the other records, s1 and s2, belong to the second base table
Limit == 3                                  \* selection: y < Limit
TopSize == 2                                \* top-k: this many rows are shown

Summed == {"count", "count_paper", "sum", "avg", "having", "projection_losing"}
ByValue == {"min", "all", "distinct", "variance"}          \* value -> multiplicity beside the record
MinReading == {"min_paper", "min_paper_scan", "min_read", "min_scan"}
Letters == {"min_paper", "min_paper_scan"}                 \* with the paper's count of rows at the minimum
Grouped == Summed \union {"sum_without_count"} \union ByValue \union MinReading
JoinRead == {"join_read", "join_entry"}     \* K-FK join, paper's Algorithm 10: reads the base; join_entry takes the
                                            \* right row from the entry, as printed, where it updates
Reverse == {"join_inner", "join_left", "join_right", "join_full", "join_semi", "join_anti"}
                                            \* both sides kept in the partition of the join value
Kept == {"top", "not_in"}                   \* all rows kept in one partition
SetPrograms == {"union", "intersection", "difference"}
SetRead == {"union_read", "intersection_read", "difference_read"}  \* reads the other base table
Selections == {"selection", "selection_fields"}
OneToOne == Selections \union {"projection"}
BaseReading == MinReading \union JoinRead \union SetRead

\* The view record a live row contributes to.
KeyOf(rec, row) ==
  CASE Program \in OneToOne \union JoinRead -> rec
    [] Program = "projection_rekeyed" -> <<row.x, rec>>
    [] Program \in Kept -> "all"
    [] OTHER -> row.x

Contributes(rec, row) ==
  /\ Alive(row)
  /\ Program \in Selections => row.y < Limit
  /\ Program \in JoinRead => OnLeft(rec)

KeysOf(rec, row) == IF Contributes(rec, row) THEN {KeyOf(rec, row)} ELSE {}

\* An update that nothing of the view depends on touches no view record at all.
PassedOver(rec, old, new) ==
  /\ KeysOf(rec, old) = KeysOf(rec, new)
  /\ \/ Program \in {"count", "count_paper", "having", "projection_losing"} \union SetPrograms \union SetRead
     \/ old = new /\ Program \in Grouped \union Reverse \union Kept /\ Program # "sum_without_count"

Empty ==
  CASE Program \in Summed \union {"sum_without_count"} -> [n |-> 0, s |-> 0]
    [] Program \in ByValue -> [y \in Ys |-> 0]
    [] Program \in MinReading -> [n |-> 0, m |-> 0]
    [] Program \in OneToOne \union {"projection_rekeyed"} -> Gone
    [] Program \in JoinRead -> [left |-> Gone, right |-> Gone]
    [] Program \in Reverse \union Kept -> [r \in Records |-> Gone]
    [] Program \in SetPrograms -> [left |-> 0, right |-> 0]
    [] Program \in SetRead -> [member |-> 0]

Reduce(n, y) == IF n >= y THEN n - y ELSE 0  \* Naturals: an invalid state stays a number

Member(left, right) ==
  CASE Program \in {"union", "union_read"} -> left \/ right
    [] Program \in {"intersection", "intersection_read"} -> left /\ right
    [] Program \in {"difference", "difference_read"} -> left /\ ~right

Changed(old, new, field, now) == IF old[field] # new[field] THEN new[field] ELSE now[field]

\* MIN by reading the base: what enters, what leaves, and when the base decides.
AbsorbMin(value, old, new, read) ==
  LET found == IF read.n = 0 \/ Program \notin Letters THEN read ELSE [read EXCEPT !.n = 1]
      better == Alive(new) /\ (value.n = 0 \/ new.y < value.m)
      leaves == Alive(old) /\ value.n > 0 /\ old.y = value.m
  IN CASE better /\ Program \in {"min_scan", "min_paper_scan"} -> found
       [] better -> [n |-> 1, m |-> new.y]
       [] Alive(new) /\ Program \in Letters -> IF new.y = value.m THEN [value EXCEPT !.n = @ + 1] ELSE value
       [] leaves /\ Program \in Letters /\ value.n > 1 -> [value EXCEPT !.n = @ - 1]
       [] leaves -> found
       [] OTHER -> value

\* A stored value after one base update moved this record's contribution from row `old` to row `new`
\* (Gone: none). `read` is what a base-reading program saw in the base.
Absorb(value, rec, old, new, read) ==
  CASE Program \in Summed ->
         IF ~Alive(new) /\ value.n = 0 THEN value     \* nothing there to take the row out of
         ELSE LET n == Reduce(value.n + N(new), N(old))
              IN IF n = 0 THEN Empty ELSE [n |-> n, s |-> Reduce(value.s + new.y, old.y)]
    [] Program = "sum_without_count" ->      \* the paper's delete: a record whose sum equals y is deleted
         IF ~Alive(new) /\ (value.n = 0 \/ value.s = old.y) THEN Empty
         ELSE [n |-> 1, s |-> Reduce(value.s + new.y, old.y)]
    [] Program \in ByValue ->
         [y \in Ys |-> Reduce(value[y] + (IF Alive(new) /\ new.y = y THEN 1 ELSE 0),
                              IF Alive(old) /\ old.y = y THEN 1 ELSE 0)]
    [] Program \in MinReading -> AbsorbMin(value, old, new, read)
    [] Program = "selection_fields" /\ Alive(value) /\ Alive(old) /\ Alive(new) ->
         [x |-> Changed(old, new, "x", value), y |-> Changed(old, new, "y", value)]
    [] Program \in OneToOne \union {"projection_rekeyed"} -> new
    [] Program \in Reverse \union Kept -> [value EXCEPT ![rec] = new]
    [] Program \in JoinRead ->
         CASE OnLeft(rec) -> [left |-> new, right |-> IF Alive(new) THEN read ELSE Gone]
           [] Alive(value.left) /\ value.left.x = new.x -> [value EXCEPT !.right = IF Program = "join_entry" THEN new ELSE read]
           [] OTHER -> value
    [] Program \in SetPrograms ->
         IF OnLeft(rec) THEN [value EXCEPT !.left = N(new)] ELSE [value EXCEPT !.right = N(new)]
    [] Program \in SetRead ->
         [member |-> IF IF OnLeft(rec) THEN Member(Alive(new), read.member = 1) ELSE Member(read.member = 1, Alive(new))
                     THEN 1 ELSE 0]

Least(ys) == CHOOSE y \in ys : \A other \in ys : y <= other
Most(ys) == CHOOSE y \in ys : \A other \in ys : y >= other

\* A bag of values as [y -> multiplicity]: what aggregates of it show.
RECURSIVE Total(_, _, _)
Total(bag, ys, power) ==
  IF ys = {} THEN 0
  ELSE LET y == CHOOSE y \in ys : TRUE
       IN bag[y] * (CASE power = 0 -> 1 [] power = 1 -> y [] power = 2 -> y * y) + Total(bag, ys \ {y}, power)

\* An average and a variance are shown as whole numbers that tell them apart; a variance of one value is null.
Twelve == 12
OfBag(bag) ==
  LET ys == {y \in Ys : bag[y] > 0}
      n == Total(bag, Ys, 0)
      s == Total(bag, Ys, 1)
  IN CASE ys = {} -> <<>>
       [] Program = "min" -> <<Least(ys)>>
       [] Program = "distinct" -> <<Cardinality(ys)>>
       [] Program = "all" -> <<n, s, (s * Twelve) \div n, Least(ys), Most(ys)>>
       [] Program = "variance" ->
            IF n = 1 THEN <<0>> ELSE <<1 + ((Total(bag, Ys, 2) * n - s * s) * Twelve) \div (n * (n - 1))>>

OfSums(n, s) ==
  CASE n = 0 -> <<>>
    [] Program \in {"count", "count_paper"} -> <<n>>
    [] Program = "having" -> IF n > 1 THEN <<n>> ELSE <<>>
    [] Program = "projection_losing" -> <<"in">>
    [] Program \in {"sum", "sum_without_count"} -> <<s>>
    [] Program = "avg" -> <<(s * Twelve) \div n>>

\* The rows of a join of the rows that share a join value; "-" stands for the side that is missing.
Joined(rows, left, right) ==
  LET lone(r, side) == IF side = "left" THEN <<r, "-", rows[r].y, 0>> ELSE <<"-", r, 0, rows[r].y>>
      matches == {pair \in left \X right : rows[pair[1]].x = rows[pair[2]].x}
      pairs == {<<pair[1], pair[2], rows[pair[1]].y, rows[pair[2]].y>> : pair \in matches}
      met == {pair[1] : pair \in matches}
      lefts == {lone(r, "left") : r \in left \ met}
      rights == {lone(s, "right") : s \in right \ {pair[2] : pair \in matches}}
  IN CASE Program = "join_inner" -> pairs
       [] Program = "join_left"  -> pairs \union lefts
       [] Program = "join_right" -> pairs \union rights
       [] Program = "join_full"  -> pairs \union lefts \union rights
       [] Program = "join_semi"  -> {lone(r, "left") : r \in met}
       [] Program = "join_anti"  -> lefts

\* NOT IN with SQL's nulls: one null on the right empties the result, unless the right side is empty.
Outside(rows, left, right) ==
  LET among == {rows[s].x : s \in right}
  IN IF among = {} THEN left
     ELSE IF Null \in among THEN {} ELSE {r \in left : rows[r].x \notin among \union {Null}}

Place(r) == CASE r = "r1" -> 1 [] r = "r2" -> 2 [] OTHER -> 3
Ahead(rows, r, s) == rows[r].y > rows[s].y \/ (rows[r].y = rows[s].y /\ Place(r) < Place(s))
Top(rows, live) == {r \in live : Cardinality({s \in live : Ahead(rows, s, r)}) < TopSize}

OfRows(rows, live) ==
  LET left == {r \in live : OnLeft(r)}
      right == {r \in live : ~OnLeft(r)}
  IN CASE Program \in Reverse -> Joined(rows, left, right)
       [] Program = "top" -> {<<r, rows[r].x, rows[r].y>> : r \in Top(rows, live)}
       [] Program = "not_in" -> {<<r, rows[r].x>> : r \in Outside(rows, left, right)}

\* What a reader sees of a stored value: <<>> (for rows of joins {}) is "no record".
ShownOf(value) ==
  CASE Program \in Summed \union {"sum_without_count"} -> OfSums(value.n, value.s)
    [] Program \in ByValue -> OfBag(value)
    [] Program \in MinReading -> IF value.n = 0 THEN <<>> ELSE <<value.m>>
    [] Program \in Selections -> IF Alive(value) THEN <<value.x, value.y>> ELSE <<>>
    [] Program \in {"projection", "projection_rekeyed"} -> IF Alive(value) THEN <<value.x>> ELSE <<>>
    [] Program \in Reverse \union Kept -> OfRows(value, {r \in Records : Alive(value[r])})
    [] Program \in JoinRead ->
         IF Alive(value.left) /\ Alive(value.right) THEN <<value.left.x, value.left.y, value.right.y>> ELSE <<>>
    [] Program \in SetPrograms -> IF Member(value.left > 0, value.right > 0) THEN <<"in">> ELSE <<>>
    [] Program \in SetRead -> IF value.member > 0 THEN <<"in">> ELSE <<>>

Shows(value) == IF Program \in Reverse \union Kept THEN ShownOf(value) # {} ELSE ShownOf(value) # <<>>

RECURSIVE SumOf(_, _)
SumOf(rows, rs) == IF rs = {} THEN 0 ELSE LET r == CHOOSE r \in rs : TRUE IN rows[r].y + SumOf(rows, rs \ {r})

\* What the view definition says view record k shows when the base rows are these: independent of Absorb.
Recompute(rows, k) ==
  LET inside == {r \in Records : KeysOf(r, rows[r]) = {k}}
      left   == {r \in inside : OnLeft(r)}
      right  == {r \in inside : ~OnLeft(r)}
  IN
  CASE Program \in Summed \union {"sum_without_count"} -> OfSums(Cardinality(inside), SumOf(rows, inside))
    [] Program \in ByValue -> OfBag([y \in Ys |-> Cardinality({r \in inside : rows[r].y = y})])
    [] Program \in MinReading -> IF inside = {} THEN <<>> ELSE <<Least({rows[r].y : r \in inside})>>
    [] Program \in Selections -> IF inside = {} THEN <<>> ELSE <<rows[k].x, rows[k].y>>
    [] Program = "projection" -> IF inside = {} THEN <<>> ELSE <<rows[k].x>>
    [] Program = "projection_rekeyed" -> IF inside = {} THEN <<>> ELSE <<k[1]>>
    [] Program \in Reverse \union Kept -> OfRows(rows, inside)
    [] Program \in JoinRead ->
         LET match == {s \in Records : ~OnLeft(s) /\ Alive(rows[s]) /\ rows[s].x = rows[k].x}
         IN IF inside # {} /\ match # {} THEN <<rows[k].x, rows[k].y, rows[CHOOSE s \in match : TRUE].y>> ELSE <<>>
    [] Program \in SetPrograms \union SetRead -> IF Member(left # {}, right # {}) THEN <<"in">> ELSE <<>>

\* What a base-reading program reads for view record k when the base rows are these.
BaseRead(rows, rec, new, k) ==
  CASE Program \in MinReading ->
         LET inside == {r \in Records : Alive(rows[r]) /\ rows[r].x = k}
         IN IF inside = {} THEN [n |-> 0, m |-> 0] ELSE [n |-> 1, m |-> Least({rows[r].y : r \in inside})]
    [] Program \in JoinRead ->
         LET match == {s \in Records : ~OnLeft(s) /\ Alive(rows[s]) /\ rows[s].x = new.x}
         IN IF match = {} THEN Gone ELSE rows[CHOOSE s \in match : TRUE]
    [] Program \in SetRead -> \* the other relation only, as in the paper
         [member |-> IF \E r \in Records : OnLeft(r) # OnLeft(rec) /\ Alive(rows[r]) /\ rows[r].x = k THEN 1 ELSE 0]
=============================================================================

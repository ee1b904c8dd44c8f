--------------------------- MODULE HistoryClaims ---------------------------
(* The levels of paper 001 as claims about what a view showed. A module that uses this one supplies the     *)
(* time-lines, the view, and for each observer (a view record, or the whole view) the sequence of states it *)
(* showed, each different from the one before.                                                              *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Records,          \* base records
          TimelineLength(_),\* record -> number of updates on its time-line
          Explains(_, _)    \* (observer, state) -> the cuts at which the view definition says it shows that state

\* A base state, or cut, is one version of each record: every combination of prefixes of the time-lines.
First == [r \in Records |-> 0]
Final == [r \in Records |-> TimelineLength(r)]
Before(c, d) == \A r \in Records : c[r] <= d[r]

\* Converged: the last state shown is the view of the final base state.
Converged(observer, shown) == Final \in Explains(observer, shown[Len(shown)])

\* Weak: every state shown is the view of some base state.
Weak(observer, shown) == \A i \in 1..Len(shown) : Explains(observer, shown[i]) # {}

\* Pairwise strong: for every two states shown, some base states explain them in the same order.
Pairwise(observer, shown) ==
  \A i \in 1..Len(shown) : \A j \in i..Len(shown) :
    \E c \in Explains(observer, shown[i]) : \E d \in Explains(observer, shown[j]) : Before(c, d)

RECURSIVE ChainEnds(_, _, _)
ChainEnds(observer, shown, i) ==
  IF i = 0 THEN {First}
  ELSE LET earlier == ChainEnds(observer, shown, i - 1)
       IN {d \in Explains(observer, shown[i]) : \E c \in earlier : Before(c, d)}

\* Strong, chain reading (the headline): one monotone sequence of base states explains all states shown.
Chain(observer, shown) == ChainEnds(observer, shown, Len(shown)) # {}

Next(c) == {[c EXCEPT ![r] = @ + 1] : r \in {q \in Records : c[q] < TimelineLength(q)}}
After(cuts, within) == UNION {Next(c) : c \in cuts} \intersect within

RECURSIVE Walked(_, _)
Walked(cuts, within) == LET more == cuts \union After(cuts, within)
                        IN IF more = cuts THEN cuts ELSE Walked(more, within)

\* Where the serializations end that showed exactly the first i states (repetitions are one state).
RECURSIVE WalkEnds(_, _, _)
WalkEnds(observer, shown, i) ==
  LET now == Explains(observer, shown[i])
  IN IF i = 1 THEN Walked({First} \intersect now, now)
     ELSE Walked(After(WalkEnds(observer, shown, i - 1), now), now)

\* Complete: the states shown are those of some serialization of the base updates, none left out.
Complete(observer, shown) == Final \in WalkEnds(observer, shown, Len(shown))
=============================================================================

--------------------------- MODULE HistoryClaims ---------------------------
(* The levels of paper 001 as claims about what a view showed. A module that extends this one supplies *)
(* the time-lines, the view, and for each observer (a view record, or the whole view) the sequence of  *)
(* states it showed, each different from the one before.                                               *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Records,          \* base records
          TimelineLength(_),\* record -> number of updates on its time-line
          Answer(_, _)      \* (cut, observer) -> what the view definition says the observer shows at this cut

\* A base state is one version of each record: every combination of prefixes of the time-lines.
Longest == CHOOSE n \in {TimelineLength(r) : r \in Records} : \A r \in Records : TimelineLength(r) <= n
Cuts == {c \in [Records -> 0..Longest] : \A r \in Records : c[r] <= TimelineLength(r)}
First == [r \in Records |-> 0]
Final == [r \in Records |-> TimelineLength(r)]
Before(c, d) == \A r \in Records : c[r] <= d[r]

\* The cuts at which the observer would show this state.
Explains(observer, state) == {c \in Cuts : Answer(c, observer) = state}

\* Converged: the last state shown is the view of the final base state.
Converged(observer, shown) == shown[Len(shown)] = Answer(Final, observer)

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

Step(c) == {[c EXCEPT ![r] = @ + 1] : r \in {q \in Records : c[q] < TimelineLength(q)}}

RECURSIVE Walks(_, _, _, _)
\* The serializations from cut c on show exactly the states from position i on (repetitions are one state).
Walks(observer, shown, c, i) ==
  IF c = Final THEN i = Len(shown)
  ELSE \E d \in Step(c) :
         \/ Answer(d, observer) = shown[i] /\ Walks(observer, shown, d, i)
         \/ i < Len(shown) /\ Answer(d, observer) = shown[i + 1] /\ Walks(observer, shown, d, i + 1)

\* Complete: the states shown are those of some serialization of the base updates, none left out.
Complete(observer, shown) == shown[1] = Answer(First, observer) /\ Walks(observer, shown, First, 1)
=============================================================================

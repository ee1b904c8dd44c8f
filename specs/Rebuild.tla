------------------------------- MODULE Rebuild -------------------------------
(* H18, H19: state filled by a scan while changes go on. The scan starts after every tail has confirmed its   *)
(* start, or a change in between is in neither. And a rebuild goes into new tables: a scan shows what is      *)
(* there, never what went away, so rows of an earlier life whose deletion no tail saw would stay for ever.    *)
(* State keeps write times; the newer one wins, whether it was scanned or came by the feed.                   *)
EXTENDS Naturals, FiniteSets

CONSTANTS Keys, Writes, Off

Rule(name) == name \notin Off
Nothing == [time |-> 0, there |-> FALSE]

VARIABLES base, writes, tailing, scanned, state, feed, gap
vars == <<base, writes, tailing, scanned, state, feed, gap>>

Init ==
  /\ base = [k \in Keys |-> [time |-> 1, there |-> TRUE]]
  /\ state = base            \* of an earlier life; then the tail was down for a while
  /\ writes = 1
  /\ gap = TRUE              \* no tail: what is written now no feed has
  /\ tailing = FALSE
  /\ scanned = {}
  /\ feed = {}

Write(k) ==
  /\ writes < Writes
  /\ writes' = writes + 1
  /\ \E there \in BOOLEAN : LET row == [time |-> writes + 1, there |-> there] IN
       /\ base' = [base EXCEPT ![k] = row]
       /\ feed' = IF tailing THEN feed \union {<<k, row>>} ELSE feed
  /\ UNCHANGED <<tailing, scanned, state, gap>>

\* The rebuild begins: in new tables, or over what is there.
Begin ==
  /\ gap
  /\ gap' = FALSE
  /\ state' = IF Rule("new incarnation") THEN [k \in Keys |-> Nothing] ELSE state
  /\ tailing' = Rule("tail first")
  /\ UNCHANGED <<base, writes, scanned, feed>>

Newer(old, new) == IF new.time > old.time THEN new ELSE old
Scan(k) ==
  /\ ~gap /\ k \notin scanned
  /\ scanned' = scanned \union {k}
  /\ state' = IF base[k].there THEN [state EXCEPT ![k] = Newer(@, base[k])] ELSE state
  /\ UNCHANGED <<base, writes, tailing, feed, gap>>

TailLate ==
  /\ ~gap /\ ~tailing /\ scanned = Keys
  /\ tailing' = TRUE
  /\ UNCHANGED <<base, writes, scanned, state, feed, gap>>

Take(k, row) ==
  /\ ~gap /\ <<k, row>> \in feed
  /\ feed' = feed \ {<<k, row>>}
  /\ state' = [state EXCEPT ![k] = Newer(@, row)]
  /\ UNCHANGED <<base, writes, tailing, scanned, gap>>

Next == Begin \/ TailLate \/ (\E k \in Keys : Write(k) \/ Scan(k)) \/ \E change \in feed : Take(change[1], change[2])
Spec == Init /\ [][Next]_vars

\* Scanned and caught up: the state shows what the base shows.
FilledInv == (~gap /\ tailing /\ scanned = Keys /\ feed = {}) => \A k \in Keys : state[k].there = base[k].there
=============================================================================

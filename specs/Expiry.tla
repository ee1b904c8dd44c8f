------------------------------- MODULE Expiry -------------------------------
(* H14: a cell expires by itself, without a change in any log. What DELTA shows must be what Cassandra shows *)
(* at the epoch's clock, whatever arrives later: a write older than the expiry but newer than the cell wins   *)
(* over the cell. A tombstone invented at the moment of expiry would win over that write.                     *)
EXTENDS Naturals, FiniteSets

CONSTANTS Times, \* write times and clocks: 1..Times
          Off

Rule(name) == name \notin Off
Nothing == [time |-> 0, ends |-> 0, dead |-> FALSE]

VARIABLES clock, sent, taken, cell
vars == <<clock, sent, taken, cell>>

Init ==
  /\ clock = 0
  /\ sent = {}     \* writes: [time, ends]; ends = 0: never
  /\ taken = {}    \* ... that DELTA took
  /\ cell = Nothing

Send(t, ends) ==
  /\ \A w \in sent : w.time # t
  /\ sent' = sent \union {[time |-> t, ends |-> ends]}
  /\ UNCHANGED <<clock, taken, cell>>

Newest(ws) == CHOOSE w \in ws : \A v \in ws : v.time <= w.time

\* A copy arrives, at any time after it was written.
Take(w) ==
  /\ w \in sent \ taken
  /\ taken' = taken \union {w}
  /\ cell' = IF w.time > cell.time THEN [time |-> w.time, ends |-> w.ends, dead |-> FALSE] ELSE cell
  /\ UNCHANGED <<clock, sent>>

\* An epoch's clock moves (it is pinned; module Pinned). With the rule off what expired becomes a tombstone of now.
Tick ==
  /\ clock < Times
  /\ clock' = clock + 1
  /\ cell' = IF ~Rule("liveness by clock") /\ cell.ends > 0 /\ cell.ends <= clock + 1
             THEN [time |-> clock + 1, ends |-> 0, dead |-> TRUE] ELSE cell
  /\ UNCHANGED <<sent, taken>>

Next == Tick \/ (\E w \in sent : Take(w)) \/ \E t \in 1..Times : \E ends \in {0} \union (t + 1)..Times : Send(t, ends)
Spec == Init /\ [][Next]_vars

Alive(w) == w.ends = 0 \/ w.ends > clock
Shows == IF cell.time = 0 \/ cell.dead \/ ~Alive(cell) THEN 0 ELSE cell.time
Cassandra == IF taken = {} \/ ~Alive(Newest(taken)) THEN 0 ELSE Newest(taken).time
CassandraInv == Shows = Cassandra
=============================================================================

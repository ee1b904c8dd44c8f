------------------------------- MODULE Delta -------------------------------
(* Stage 0 over replicas: Cassandra keeps the newest write time, each replica logs what it receives, a copy  *)
(* may reach a replica late. DELTA merges the logs by write time. What may be claimed is a matter of which   *)
(* base time-line one means (H12): absorbed (the order in which DELTA took changes) or write time.           *)
EXTENDS Naturals, FiniteSets

CONSTANTS Replicas, Writes, \* number of writes to the one base record; write w has write time w
          Off               \* rules switched off: "merge by write time", "hold back"

Rule(name) == name \notin Off

VARIABLES written,  \* writes sent so far
          logs,     \* replica -> writes it received (and logged)
          absorbed, \* writes DELTA took
          image,    \* DELTA's row: the write it shows
          shown     \* set of pairs (earlier image, later image) DELTA showed
vars == <<written, logs, absorbed, image, shown>>

Init ==
  /\ written = 0
  /\ logs = [r \in Replicas |-> {}]
  /\ absorbed = {}
  /\ image = 0
  /\ shown = {}

Write ==
  /\ written < Writes
  /\ written' = written + 1
  /\ \E r \in Replicas : logs' = [logs EXCEPT ![r] = @ \union {written + 1}]
  /\ UNCHANGED <<absorbed, image, shown>>

\* A copy arrives: at once, by a hint, by a repair: any time later.
Copy(r, w) ==
  /\ w \in 1..written /\ w \notin logs[r]
  /\ logs' = [logs EXCEPT ![r] = @ \union {w}]
  /\ UNCHANGED <<written, absorbed, image, shown>>

Newest(ws) == IF ws = {} THEN 0 ELSE CHOOSE w \in ws : \A v \in ws : v <= w

\* A replica's feed clock: all it will ever log with an older write time is there already.
FeedClock(r) == IF \E w \in 1..written : w \notin logs[r]
                THEN (CHOOSE w \in 1..written : w \notin logs[r] /\ \A v \in 1..(w - 1) : v \in logs[r]) - 1
                ELSE written
Watermark == CHOOSE w \in {FeedClock(r) : r \in Replicas} : \A r \in Replicas : w <= FeedClock(r)

\* An epoch takes some changes of some replica's log. At level write-time nothing beyond the watermark.
Absorb(r, w) ==
  /\ w \in logs[r] /\ w \notin absorbed
  /\ Rule("hold back") => w <= Watermark /\ \A v \in 1..w : v \in absorbed \union {w}
  /\ absorbed' = absorbed \union {w}
  /\ image' = IF Rule("merge by write time") THEN Newest(absorbed') ELSE w
  /\ shown' = IF image' = image THEN shown
              ELSE shown \union {<<v, image'>> : v \in {image} \union {pair[1] : pair \in shown}
                                                            \union {pair[2] : pair \in shown}}
  /\ UNCHANGED <<written, logs>>

Next == Write \/ \E r \in Replicas : \E w \in 1..Writes : Copy(r, w) \/ Absorb(r, w)
Spec == Init /\ [][Next]_vars

\* When every replica has every write and DELTA took all of them, it shows what Cassandra shows.
ConvergedInv == (absorbed = 1..Writes) => image = Writes

\* DELTA shows a chain of the writers' own time-line: never an older write after a newer one.
ForwardInv == \A pair \in shown : pair[1] < pair[2]

\* At level write-time: odd writes set one column, even ones another; DELTA's row, each column with its newest
\* write, is what the record was at some moment of the write-time line.
Column(ws, parity) == Newest({w \in ws : w % 2 = parity})
WriteTimeInv == \E p \in 0..Writes : \A parity \in {0, 1} : Column(absorbed, parity) = Column(1..p, parity)
=============================================================================

------------------------------- MODULE Trace -------------------------------
(* Does a recorded history fit the spec of per-entry programs and their store? Each event is an action; the    *)
(* one hidden step is the moment a test-and-set takes effect. The generated module that extends this one      *)
(* gives the history as a literal. TLC says invariant NotMatchedInv is broken = the history was matched to    *)
(* its last event; TLC finds no violation = some event fits no action.                                        *)
(*                                                                                                            *)
(*   action      event in cvs/history/events.py        fields read                                            *)
(*   Write       base_update_called                    table, key, version, row                               *)
(*   Receive     update_received                       process, table, key, version                           *)
(*   Call        test_and_set_called                   process, operation, view_key, expected, new, row,      *)
(*                                                     absorbed                                               *)
(*   Return      test_and_set_returned                 process, operation, outcome                            *)
(*   Crash       manager_crashed                       victim                                                 *)
(*   Rest        quiescent                             none                                                   *)
EXTENDS Naturals, Integers, Sequences, FiniteSets, TLC

CONSTANTS Log,       \* the events, in recorded order
          Bases,     \* base records
          Keys,      \* view records
          RowAt,     \* base record -> version + 1 -> [x, y]: group and measure; x = "-": contributes nothing
          Start,     \* key -> [version, n, s, taken]: the view as it stood at the start
          Valued     \* whether count and sum are known; otherwise only lineage and signatures are checked

VARIABLES i, base, received, stored, past, asked
vars == <<i, base, received, stored, past, asked>>

Now == Log[i]
Advance(kind) == i <= Len(Log) /\ Now.kind = kind /\ i' = i + 1

Init ==
  /\ i = 1
  /\ base = [b \in Bases |-> 0]
  /\ received = {}
  /\ stored = Start
  /\ past = {<<k, Start[k]>> : k \in Keys}
  /\ asked = {}

Write ==
  /\ Advance("write")
  /\ Now.version = base[Now.base] + 1
  /\ base' = [base EXCEPT ![Now.base] = Now.version]
  /\ UNCHANGED <<received, stored, past, asked>>

Receive ==
  /\ Advance("receive")
  /\ Now.version <= base[Now.base]
  /\ received' = received \union {<<Now.process, Now.base, Now.version>>}
  /\ UNCHANGED <<base, stored, past, asked>>

In(b, v, k) == IF RowAt[b][v + 1].x = k THEN 1 ELSE 0
Of(b, v, k) == IF RowAt[b][v + 1].x = k THEN RowAt[b][v + 1].y ELSE 0

\* The program's rules for one line of a certificate: an entry it was handed, not absorbed before, none left out.
Follows(seen, line, process, k) ==
  /\ <<process, line.base, line.to>> \in received
  /\ line.to = line.from + 1
  /\ seen.taken[line.base] <= line.from
  /\ Valued => \A v \in (seen.taken[line.base] + 1)..line.from : In(line.base, v, k) = 0

RECURSIVE Total(_, _, _, _)
Total(lines, k, seen, what) ==
  IF lines = {} THEN IF what = "n" THEN seen.n ELSE seen.s
  ELSE LET line == CHOOSE line \in lines : TRUE
           change == IF what = "n" THEN In(line.base, line.to, k) - In(line.base, line.from, k)
                     ELSE Of(line.base, line.to, k) - Of(line.base, line.from, k)
       IN change + Total(lines \ {line}, k, seen, what)

\* A test-and-set leaves: its record is computed from the very signature it conditions on.
Call ==
  /\ Advance("call")
  /\ \E pair \in past :
       /\ pair[1] = Now.key /\ pair[2].version = Now.expected
       /\ Now.new = Now.expected + 1
       /\ \A line \in Now.absorbed : Follows(pair[2], line, Now.process, Now.key)
       /\ Valued => /\ Now.n = Total(Now.absorbed, Now.key, pair[2], "n")
                    /\ Now.s = Total(Now.absorbed, Now.key, pair[2], "s")
       /\ asked' = asked \union {[operation |-> Now.operation, key |-> Now.key, expected |-> Now.expected,
            applied |-> FALSE, ended |-> FALSE,
            record |-> [version |-> Now.new, n |-> Now.n, s |-> Now.s, taken |-> [b \in Bases |->
              IF \E line \in Now.absorbed : line.base = b
              THEN (CHOOSE line \in Now.absorbed : line.base = b).to ELSE pair[2].taken[b]]]]}
  /\ UNCHANGED <<base, received, stored, past>>

\* Hidden: a test-and-set on its way takes effect, before or long after its answer was given up on.
Effect(request) ==
  /\ ~request.applied /\ ~request.ended
  /\ stored[request.key].version = request.expected
  /\ stored' = [stored EXCEPT ![request.key] = request.record]
  /\ past' = past \union {<<request.key, request.record>>}
  /\ asked' = (asked \ {request}) \union {[request EXCEPT !.applied = TRUE]}
  /\ UNCHANGED <<i, base, received>>

Return ==
  /\ Advance("return")
  /\ \E request \in asked :
       /\ request.operation = Now.operation
       /\ CASE Now.outcome = "applied"  -> request.applied
            [] Now.outcome = "rejected" -> ~request.applied /\ stored[request.key].version # request.expected
            [] Now.outcome = "not_sent" -> ~request.applied
            [] Now.outcome = "unknown"  -> TRUE
       /\ asked' = IF Now.outcome = "unknown" THEN asked
                   ELSE (asked \ {request}) \union {[request EXCEPT !.ended = TRUE]}
  /\ UNCHANGED <<base, received, stored, past>>

Crash ==
  /\ Advance("crash")
  /\ UNCHANGED <<base, received, stored, past, asked>>

RECURSIVE SumOver(_, _)
SumOver(bs, k) == IF bs = {} THEN 0 ELSE LET b == CHOOSE b \in bs : TRUE IN Of(b, base[b], k) + SumOver(bs \ {b}, k)

\* At rest every view record is the view of the base.
Rest ==
  /\ Advance("rest")
  /\ Valued => \A k \in Keys : /\ stored[k].n = Cardinality({b \in Bases : In(b, base[b], k) = 1})
                               /\ stored[k].s = SumOver(Bases, k)
  /\ UNCHANGED <<base, received, stored, past, asked>>

Matched == (Write \/ Receive \/ Call \/ Return \/ Crash \/ Rest) /\ PrintT(<<"matched", i>>)
Next == Matched \/ \E request \in asked : Effect(request)
Spec == Init /\ [][Next]_vars

\* Broken = the whole history was matched.
NotMatchedInv == i <= Len(Log)
=============================================================================

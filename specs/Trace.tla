------------------------------- MODULE Trace -------------------------------
(* Does a recorded history fit the spec of per-entry programs and their store? Each event is an action; the    *)
(* one hidden step is the moment a test-and-set takes effect. The generated module that extends this one      *)
(* gives the history as a literal. TLC says invariant NotMatchedInv is broken = the history was matched to    *)
(* its last event; TLC finds no violation = some event fits no action.                                        *)
(*                                                                                                            *)
(*   of PerEntry     here      event in cvs/history/events.py       fields read                               *)
(*   WriteBase       Write     base_update_called                   table, key, version, row                  *)
(*   Take            Receive   update_received                      process, table, key, version              *)
(*   Read, ReadBase  Call      test_and_set_called                  process, operation, view_key, expected,   *)
(*                                                                  new, row, absorbed                        *)
(*   Answered        Return    test_and_set_returned                process, operation, outcome               *)
(*   Unknown         Return    test_and_set_returned                the same                                  *)
(*   NotSent         Return    test_and_set_returned                the same                                  *)
(*   Late            Effect    none: hidden                                                                   *)
(*   Never           none      none: nothing happens                                                          *)
(*   Crash           Crash     manager_crashed                      victim: it forgets what it was handed     *)
(*   Acknowledge     none      none: nothing is asked of the store                                            *)
(*   (Quiet)         Rest      quiescent                            none                                      *)
(* A read leaves no event of its own: what was read is what the call expects. An entry that changes nothing   *)
(* of a view record is passed over: it is received, and the next one's line begins behind it.                 *)
EXTENDS Naturals, Integers, Sequences, FiniteSets, TLC

CONSTANTS Log,       \* the events, in recorded order
          Bases,     \* base records
          Keys,      \* view records
          RowAt,     \* base record -> version + 1 -> [x, y, v]: group ("-": none), measure, 0 if it is null, else 1
          Start,     \* key -> [version, n, s, v, taken]: rows, sum, values that are not null; what was absorbed
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

\* What one version of a base record gives to a view record: a row, its measure, whether that is a value.
Part(b, version, k) ==
  LET row == RowAt[b][version + 1]
  IN IF row.x = k THEN [n |-> 1, s |-> row.y, v |-> row.v] ELSE [n |-> 0, s |-> 0, v |-> 0]

\* The program's rules for one line of a certificate: an entry it was handed, not absorbed before; what lies between
\* changes nothing of this view record.
Follows(seen, line, process, k) ==
  /\ <<process, line.base, line.to>> \in received
  /\ line.to = line.from + 1
  /\ seen.taken[line.base] <= line.from
  /\ Valued => \A v \in (seen.taken[line.base] + 1)..line.from : Part(line.base, v, k) = Part(line.base, v - 1, k)

RECURSIVE Total(_, _, _, _)
Total(lines, k, seen, what) ==
  IF lines = {} THEN seen[what]
  ELSE LET line == CHOOSE line \in lines : TRUE
       IN Part(line.base, line.to, k)[what] - Part(line.base, line.from, k)[what]
          + Total(lines \ {line}, k, seen, what)

\* A test-and-set leaves: its record is computed from the very signature it conditions on.
Call ==
  /\ Advance("call")
  /\ \E pair \in past :
       /\ pair[1] = Now.key /\ pair[2].version = Now.expected
       /\ Now.new = Now.expected + 1
       /\ \A line \in Now.absorbed : Follows(pair[2], line, Now.process, Now.key)
       /\ Valued => /\ Now.there = (Now.n > 0)      \* a group without rows is not shown
                    /\ Now.n = Total(Now.absorbed, Now.key, pair[2], "n")
                    /\ Now.s = Total(Now.absorbed, Now.key, pair[2], "s")
                    /\ Now.known = (Total(Now.absorbed, Now.key, pair[2], "v") > 0)     \* a sum of nulls is null, not 0
       /\ asked' = asked \union {[operation |-> Now.operation, key |-> Now.key, expected |-> Now.expected,
            applied |-> FALSE, ended |-> FALSE,
            record |-> [version |-> Now.new, n |-> Now.n, s |-> Now.s,
              v |-> IF Valued THEN Total(Now.absorbed, Now.key, pair[2], "v") ELSE 0, taken |-> [b \in Bases |->
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
  /\ received' = {r \in received : r[1] # Now.victim}
  /\ UNCHANGED <<base, stored, past, asked>>

RECURSIVE SumOver(_, _, _)
SumOver(bs, k, what) ==
  IF bs = {} THEN 0
  ELSE LET b == CHOOSE b \in bs : TRUE IN Part(b, base[b], k)[what] + SumOver(bs \ {b}, k, what)

\* At rest every view record is the view of the base.
Rest ==
  /\ Advance("rest")
  /\ Valued => \A k \in Keys : \A what \in {"n", "s", "v"} : stored[k][what] = SumOver(Bases, k, what)
  /\ UNCHANGED <<base, received, stored, past, asked>>

Matched == (Write \/ Receive \/ Call \/ Return \/ Crash \/ Rest) /\ PrintT(<<"matched", i>>)
Next == Matched \/ \E request \in asked : Effect(request)
Spec == Init /\ [][Next]_vars

\* Broken = the whole history was matched.
NotMatchedInv == i <= Len(Log)
=============================================================================

---------------------------- MODULE SilentRetry ----------------------------
(* One view record, some base updates that each add one, managers that read and test-and-set over a  *)
(* network that may lose answers. What goes wrong when the driver, not the program, handles a lost    *)
(* answer. Written before any other spec; with its rules off it must fail.                            *)
EXTENDS Naturals, FiniteSets

CONSTANTS Updates,   \* the base updates, each delivered to one manager of its own
          Off,       \* rules switched off: "rethrow", "signature"
          Losses     \* how many answers may be lost

Rule(name) == name \notin Off

VARIABLES record,    \* [value, version, absorbed]: the stored view record
          manager,   \* update -> what its manager is doing
          request,   \* update -> the test-and-set on its way, if any
          told,      \* update -> outcomes told to the program, per attempt
          hit,       \* update -> set of attempts that really applied
          lost
vars == <<record, manager, request, told, hit, lost>>

Idle == [stage |-> "none", version |-> 0, value |-> 0, attempt |-> 0]

Init ==
  /\ record = [value |-> 0, version |-> 0, absorbed |-> {}]
  /\ manager = [u \in Updates |-> [stage |-> "read", attempt |-> 0, value |-> 0, version |-> 0]]
  /\ request = [u \in Updates |-> Idle]
  /\ told = [u \in Updates |-> {}]
  /\ hit = [u \in Updates |-> {}]
  /\ lost = 0

\* The program reads; with signatures it knows whether its update is absorbed already.
Read(u) ==
  /\ manager[u].stage = "read"
  /\ IF Rule("signature") /\ u \in record.absorbed
     THEN /\ manager' = [manager EXCEPT ![u].stage = "done"]
          /\ UNCHANGED request
     ELSE /\ manager[u].attempt < 3
          /\ manager' = [manager EXCEPT ![u] = [stage |-> "waiting", attempt |-> @.attempt + 1,
                                                value |-> record.value, version |-> record.version]]
          /\ request' = [request EXCEPT ![u] = [stage |-> "sent", attempt |-> manager[u].attempt + 1,
                                                value |-> record.value, version |-> record.version]]
  /\ UNCHANGED <<record, told, hit, lost>>

\* The store decides; an answer leaves that may be lost.
Decide(u) ==
  /\ request[u].stage = "sent"
  /\ IF record.version = request[u].version
     THEN /\ record' = [value |-> request[u].value + 1, version |-> record.version + 1,
                        absorbed |-> record.absorbed \union {u}]
          /\ request' = [request EXCEPT ![u].stage = "applied"]
          /\ hit' = [hit EXCEPT ![u] = @ \union {request[u].attempt}]
     ELSE /\ request' = [request EXCEPT ![u].stage = "rejected"]
          /\ UNCHANGED <<record, hit>>
  /\ UNCHANGED <<manager, told, lost>>

\* An answer is lost. A rethrowing driver says "unknown"; a silent one asks again by itself.
Lose(u) ==
  /\ request[u].stage \in {"applied", "rejected"}
  /\ lost < Losses
  /\ lost' = lost + 1
  /\ IF Rule("rethrow")
     THEN /\ request' = [request EXCEPT ![u].stage = "none"]
          /\ manager' = [manager EXCEPT ![u].stage = "read"]
          /\ told' = [told EXCEPT ![u] = @ \union {<<manager[u].attempt, "unknown">>}]
     ELSE /\ request' = [request EXCEPT ![u].stage = "sent"]
          /\ UNCHANGED <<manager, told>>
  /\ UNCHANGED <<record, hit>>

\* The program hears the answer.
Answer(u) ==
  /\ request[u].stage \in {"applied", "rejected"}
  /\ manager[u].stage = "waiting"
  /\ manager' = [manager EXCEPT ![u].stage = IF request[u].stage = "applied" THEN "done" ELSE "read"]
  /\ told' = [told EXCEPT ![u] = @ \union {<<manager[u].attempt, request[u].stage>>}]
  /\ request' = [request EXCEPT ![u].stage = "none"]
  /\ UNCHANGED <<record, hit, lost>>

Next == \E u \in Updates : Read(u) \/ Decide(u) \/ Lose(u) \/ Answer(u)
Spec == Init /\ [][Next]_vars

\* Each base update changes the view record at most once.
EachUpdateOnceInv == record.value <= Cardinality(Updates) /\ \A u \in Updates : Cardinality(hit[u]) <= 1

\* A test-and-set the program was told is rejected did not change the record.
OutcomeHonestInv == \A u \in Updates : \A a \in hit[u] : <<a, "rejected">> \notin told[u]

\* When every program is done, every base update is in the view record.
ConvergedInv == (\A u \in Updates : manager[u].stage = "done") => record.value = Cardinality(Updates)
=============================================================================

------------------------------ MODULE PerEntry ------------------------------
(* Paper 001 literally: many view managers, one test-and-set an entry and view record, answers that get *)
(* lost, requests that arrive late or never, entries delivered again, managers that stop.               *)
EXTENDS Scenarios

CONSTANTS Managers, Off, Faults, Whole

Rule(name) == name \notin Off

VARIABLES base,     \* record -> versions written so far
          done,     \* record -> entries acknowledged
          view,     \* key -> [version, mark, entries, value]: the stored view record with its signature
          manager,  \* manager -> what it is doing
          orphans,  \* test-and-sets whose sender no longer waits
          faults,   \* faults left
          shown     \* observer -> states shown so far, each different from the one before
vars == <<base, done, view, manager, orphans, faults, shown>>

Observers == IF Whole THEN {"whole"} ELSE Keys
\* A table, because TLC computes a constant once.
Table == [cut \in [Records -> 0..3] |->
            IF \A r \in Records : cut[r] <= Length(r)
            THEN IF Whole THEN [o \in Observers |-> [k \in Keys |-> Recompute(RowsAt(cut), k)]]
                          ELSE [o \in Observers |-> Recompute(RowsAt(cut), o)]
            ELSE <<>>]
AnswerOf(cut, o) == Table[cut][o]
INSTANCE HistoryClaims WITH TimelineLength <- Length, Answer <- AnswerOf

\* The mark names the entry absorbed last: of two states with the same version it is known which is which.
NoMark == <<>>
NoRequest == [key |-> "-", version |-> 0, mark |-> NoMark, next |-> NoMark, entries |-> <<>>, value |-> <<>>]
Idle == [stage |-> "idle", record |-> "-", entry |-> 0, step |-> 1, request |-> NoRequest]
NoEntries == [r \in Records |-> 0]
Untouched == [version |-> 0, mark |-> NoMark, entries |-> NoEntries, value |-> Empty]

\* What one entry has to do: one step a view record touched; the paper deletes first, then inserts.
StepsOf(r, e) ==
  LET old == Versions(r)[e]
      new == Versions(r)[e + 1]
      from == KeysOf(r, old)
      to == KeysOf(r, new)
      del == IF from = {} THEN <<>> ELSE <<[key |-> CHOOSE k \in from : TRUE, old |-> old, new |-> Gone]>>
      ins == IF to = {} THEN <<>> ELSE <<[key |-> CHOOSE k \in to : TRUE, old |-> Gone, new |-> new]>>
  IN CASE Program \in JoinRead /\ ~OnLeft(r) ->
            IF Alive(old) /\ Alive(new) THEN <<[key |-> "r1", old |-> old, new |-> new]>> ELSE <<>>
       [] from = to /\ from # {} /\ Program # "min_paper" ->
            <<[key |-> CHOOSE k \in to : TRUE, old |-> old, new |-> new]>>
       [] OTHER -> del \o ins

\* The initial view is the view of the initial base.
RECURSIVE Filled(_, _)
Filled(k, rs) ==
  IF rs = {} THEN Empty
  ELSE LET r == CHOOSE r \in rs : TRUE
           row == Versions(r)[1]
           before == Filled(k, rs \ {r})
       IN CASE Program \in JoinRead -> IF Alive(Versions(k)[1])
                 THEN [left |-> Versions(k)[1], right |-> BaseRead(RowsAt(First), k, Versions(k)[1], k)] ELSE Empty
            [] Program \in BaseReading \ JoinRead -> BaseRead(RowsAt(First), r, row, k)
            [] k \in KeysOf(r, row) -> Absorb(before, r, Gone, row, Empty)
            [] OTHER -> before

Init ==
  /\ base = IF Program \in BaseReading THEN First ELSE Final
  /\ done = [r \in Records |-> {}]
  /\ view = [k \in Keys |-> [Untouched EXCEPT !.value = Filled(k, Records)]]
  /\ manager = [m \in Managers |-> Idle]
  /\ orphans = {}
  /\ faults = Faults
  /\ shown = [o \in Observers |-> <<AnswerOf(First, o)>>]

\* A writer changes a base record; the entry is now in its stream.
WriteBase(r) ==
  /\ base[r] < Length(r)
  /\ base' = [base EXCEPT ![r] = @ + 1]
  /\ UNCHANGED <<done, view, manager, orphans, faults, shown>>

Busy(r) == \E m \in Managers : manager[m].stage # "idle" /\ manager[m].record = r
InHand(r, e) == \E m \in Managers : manager[m].stage # "idle" /\ manager[m].record = r /\ manager[m].entry = e

\* Stories for the simulator switch two freedoms off: there a stream has an owner, who gets it again after a crash.
Owner(r) == IF r = "r1" THEN "m1" ELSE "m2"

\* A manager is handed an entry. Flow control: the next one of its record, no other of it in hand.
\* Delivered again (a fault): any entry that is done or in hand.
Take(m, r, e) ==
  /\ manager[m].stage = "idle"
  /\ e <= base[r]
  /\ Rule("any manager") \/ m = Owner(r)
  /\ \/ /\ e \notin done[r] /\ ~InHand(r, e)
        /\ Rule("flow control") => /\ \A f \in 1..(e - 1) : f \in done[r]
                                   /\ ~Busy(r)
        /\ UNCHANGED faults
     \/ /\ Rule("any delivery")
        /\ e \in done[r] \/ InHand(r, e)
        /\ faults > 0
        /\ faults' = faults - 1
  /\ manager' = [manager EXCEPT ![m] = [Idle EXCEPT !.stage = "read", !.record = r, !.entry = e]]
  /\ UNCHANGED <<base, done, view, orphans, shown>>

EntryId(m) == 2 * manager[m].entry + manager[m].step
StepNow(m) == StepsOf(manager[m].record, manager[m].entry)[manager[m].step]
Finished(m) == manager[m].step > Len(StepsOf(manager[m].record, manager[m].entry))

\* Every step is absorbed: the entry is acknowledged.
Acknowledge(m) ==
  /\ manager[m].stage = "read" /\ Finished(m)
  /\ done' = [done EXCEPT ![manager[m].record] = @ \union {manager[m].entry}]
  /\ manager' = [manager EXCEPT ![m] = Idle]
  /\ UNCHANGED <<base, view, orphans, faults, shown>>

NextStep(m) == [manager EXCEPT ![m] = [@ EXCEPT !.step = @ + 1, !.stage = "read", !.request = NoRequest]]
ReadAgain(m) == [manager EXCEPT ![m] = [@ EXCEPT !.stage = "read", !.request = NoRequest]]

Processed(m, stored) == Rule("signature") /\ stored.entries[manager[m].record] >= EntryId(m)

\* Not about this view record after all: the paper's join touches only records with this foreign key.
Elsewhere(m, stored) ==
  /\ Program \in JoinRead /\ ~OnLeft(manager[m].record)
  /\ ~Alive(stored.value.left) \/ stored.value.left.x # StepNow(m).new.x

Request(m, stored, read) ==
  [key |-> StepNow(m).key, version |-> stored.version, mark |-> stored.mark,
   next |-> IF Rule("mark") THEN <<manager[m].record, EntryId(m)>> ELSE NoMark,
   entries |-> [stored.entries EXCEPT ![manager[m].record] = IF @ > EntryId(m) THEN @ ELSE EntryId(m)],
   value |-> Absorb(stored.value, manager[m].record, StepNow(m).old, StepNow(m).new, read)]

\* The program reads the view record; done already: next step; else its test-and-set leaves, or the base is read first.
Read(m) ==
  /\ manager[m].stage = "read" /\ ~Finished(m)
  /\ LET stored == view[StepNow(m).key]
     IN IF Processed(m, stored) \/ Elsewhere(m, stored) THEN manager' = NextStep(m)
        ELSE manager' = [manager EXCEPT ![m] = [@ EXCEPT
               !.stage = IF Program \in BaseReading THEN "read base" ELSE "wait",
               !.request = IF Program \in BaseReading
                           THEN [key |-> StepNow(m).key, version |-> stored.version, mark |-> stored.mark,
                                 next |-> NoMark, entries |-> stored.entries, value |-> stored.value]
                           ELSE Request(m, stored, Empty)]]
  /\ UNCHANGED <<base, done, view, orphans, faults, shown>>

ReadBase(m) ==
  /\ manager[m].stage = "read base"
  /\ LET read == BaseRead(RowsAt(base), manager[m].record, StepNow(m).new, StepNow(m).key)
     IN manager' = [manager EXCEPT ![m] = [@ EXCEPT !.stage = "wait", !.request = Request(m, @, read)]]
  /\ UNCHANGED <<base, done, view, orphans, faults, shown>>

\* Deletion must not forget: without permanent signatures an empty record loses its signature.
Stored(request) ==
  IF Rule("permanent signature") \/ ShownOf(request.value) # <<>>
  THEN [version |-> request.version + 1, mark |-> request.next, entries |-> request.entries, value |-> request.value]
  ELSE Untouched

Accepts(request) ==
  Rule("test-and-set") => /\ view[request.key].version = request.version
                          /\ view[request.key].mark = request.mark

ShowNow(after) ==
  [o \in Observers |-> LET now == IF Whole THEN [k \in Keys |-> ShownOf(after[k].value)] ELSE ShownOf(after[o].value)
                       IN IF shown[o][Len(shown[o])] = now THEN shown[o] ELSE Append(shown[o], now)]

Apply(request) ==
  /\ view' = [view EXCEPT ![request.key] = Stored(request)]
  /\ shown' = ShowNow(view')

\* The store decides and the manager hears it: applied, or rejected and it reads again.
Answered(m) ==
  /\ manager[m].stage = "wait"
  /\ IF Accepts(manager[m].request)
     THEN Apply(manager[m].request) /\ manager' = NextStep(m)
     ELSE UNCHANGED <<view, shown>> /\ manager' = IF Rule("read again") THEN ReadAgain(m) ELSE manager
  /\ UNCHANGED <<base, done, orphans, faults>>

\* Unknown: the manager hears nothing; the request may have been applied, may be applied late, or never.
Unknown(m) ==
  /\ manager[m].stage = "wait" /\ faults > 0
  /\ faults' = faults - 1
  /\ manager' = ReadAgain(m)
  /\ \/ Accepts(manager[m].request) /\ Apply(manager[m].request) /\ UNCHANGED orphans
     \/ orphans' = orphans \union {manager[m].request} /\ UNCHANGED <<view, shown>>
  /\ UNCHANGED <<base, done>>

\* The manager stops, wherever it is; its request, if any, is on its way.
Crash(m) ==
  /\ manager[m].stage # "idle" /\ faults > 0
  /\ faults' = faults - 1
  /\ orphans' = IF manager[m].stage = "wait" THEN orphans \union {manager[m].request} ELSE orphans
  /\ manager' = [manager EXCEPT ![m] = Idle]
  /\ UNCHANGED <<base, done, view, shown>>

Late(request) ==
  /\ orphans' = orphans \ {request}
  /\ IF Accepts(request) THEN Apply(request) ELSE UNCHANGED <<view, shown>>
  /\ UNCHANGED <<base, done, manager, faults>>

Never(request) ==
  /\ orphans' = orphans \ {request}
  /\ UNCHANGED <<base, done, view, manager, faults, shown>>

Next ==
  \/ \E r \in Records : WriteBase(r)
  \/ \E m \in Managers : \/ \E r \in Records : \E e \in 1..Length(r) : Take(m, r, e)
                         \/ Acknowledge(m) \/ Read(m) \/ ReadBase(m) \/ Answered(m) \/ Unknown(m) \/ Crash(m)
  \/ \E request \in orphans : Late(request) \/ Never(request)

Spec == Init /\ [][Next]_vars

\* Fair: managers go on, requests are decided; faults and late copies owe nothing.
FairSpec ==
  /\ Spec
  /\ \A r \in Records : WF_vars(WriteBase(r))
  /\ \A m \in Managers :
       /\ WF_vars(Acknowledge(m)) /\ WF_vars(Read(m)) /\ WF_vars(ReadBase(m)) /\ WF_vars(Answered(m))
       /\ \A r \in Records : \A e \in 1..3 : WF_vars(e <= Length(r) /\ e \notin done[r] /\ Take(m, r, e))

Quiet ==
  /\ \A r \in Records : done[r] = 1..Length(r)
  /\ \A m \in Managers : manager[m].stage = "idle"
  /\ orphans = {}

\* Once everything is propagated, every view record is the view of the final base state.
ConvergedInv == Quiet => \A o \in Observers : Converged(o, shown[o])

\* The next three are looked at when a run is over: `shown` forgets nothing, and every run can be finished.

\* Every state a view record showed is the view of some base state.
WeakInv == Quiet => \A o \in Observers : Weak(o, shown[o])

\* Any two states shown are explained by base states in the same order.
PairwiseInv == Quiet => \A o \in Observers : Pairwise(o, shown[o])

\* One monotone sequence of base states explains everything shown.
ChainInv == Quiet => \A o \in Observers : Chain(o, shown[o])

\* Nothing of some serialization of the base updates was left out.
CompleteInv == Quiet => \A o \in Observers : Complete(o, shown[o])

\* Broken = a finished run was found: how stories of runs that end well are made.
UnfinishedInv == ~Quiet

\* Every base update is eventually absorbed and acknowledged.
AbsorbedProp == <>[](\A r \in Records : done[r] = 1..Length(r))
=============================================================================

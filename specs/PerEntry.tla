------------------------------ MODULE PerEntry ------------------------------
(* Paper 001 literally: many view managers, one test-and-set an entry and view record, answers that get *)
(* lost, requests that arrive late or never, entries delivered again, managers that stop.               *)
EXTENDS Scenarios, TLC

CONSTANTS Managers, Off, Faults,
          Whole,      \* whether the whole view is looked at, or each record by itself
          FaultSets   \* "given": the three above; otherwise columns of the level table, each with all its runs

Rule(name) == name \notin Off

VARIABLES under,    \* the fault set of this run
          base,     \* record -> versions written so far
          done,     \* record -> entries acknowledged
          view,     \* key -> [version, mark, entries, value]: the stored view record with its signature
          manager,  \* manager -> what it is doing
          orphans,  \* test-and-sets whose sender no longer waits
          faults,   \* faults left
          shown     \* observer -> states shown so far, each different from the one before
vars == <<under, base, done, view, manager, orphans, faults, shown>>

\* The fault sets of the level table, from one manager behind the base to managers thought dead that still work.
Faulty == under \in {"given", "crashes", "zombies"}
Zombies == under \in {"given", "zombies"}
InOrder == Rule("flow control") /\ under # "unordered"

View == IF Program = "projection_rekeyed" THEN <<"whole", "view">> ELSE "whole view"     \* of the type of Keys
Observers == IF FaultSets # {"given"} THEN Keys \union {View} ELSE IF Whole THEN {View} ELSE Keys
\* Tables, because TLC computes a constant once.
AllCuts == {cut \in [Records -> 0..3] : \A r \in Records : cut[r] <= Length(r)}
Answers == [o \in Observers |-> [cut \in AllCuts |->
              IF o = View THEN [k \in Keys |-> Recompute(RowsAt(cut), k)] ELSE Recompute(RowsAt(cut), o)]]
Explaining == [o \in Observers |-> [state \in {Answers[o][cut] : cut \in AllCuts} |->
                {cut \in AllCuts : Answers[o][cut] = state}]]
ExplainedBy(o, state) == IF state \in DOMAIN Explaining[o] THEN Explaining[o][state] ELSE {}
AnswerOf(cut, o) == Answers[o][cut]
Claims == INSTANCE HistoryClaims WITH TimelineLength <- Length, Explains <- ExplainedBy
First == Claims!First
Final == Claims!Final

\* The mark names the entry absorbed last: of two states with the same version it is known which is which.
NoMark == <<>>
NoRequest == [key |-> "-", version |-> 0, mark |-> NoMark, next |-> NoMark, entries |-> <<>>, value |-> <<>>]
\* found: the left rows of a join that a scan of the base found when an update of a right row was taken.
Idle == [stage |-> "idle", record |-> "-", entry |-> 0, step |-> 1, request |-> NoRequest, found |-> {}]
NoEntries == [r \in Records |-> 0]
Untouched == [version |-> 0, mark |-> NoMark, entries |-> NoEntries, value |-> Empty]

\* What one entry has to do: one step a view record touched; the paper deletes first, then inserts. An update of the
\* right side of a join visits every left row that may refer to it.
RECURSIVE Visits(_, _)
Visits(rs, step) == IF rs = <<>> THEN <<>>
                    ELSE (IF rs[1] \in Records THEN <<[step EXCEPT !.key = rs[1]]>> ELSE <<>>) \o Visits(Tail(rs), step)

StepsMade(r, e) ==
  LET old == Versions(r)[e]
      new == Versions(r)[e + 1]
      from == KeysOf(r, old)
      to == KeysOf(r, new)
      step(keys, before, after) ==
        IF keys = {} THEN <<>> ELSE <<[key |-> CHOOSE k \in keys : TRUE, old |-> before, new |-> after]>>
  IN CASE PassedOver(r, old, new) -> <<>>
       [] Program \in JoinRead /\ ~OnLeft(r) ->
            IF Alive(old) /\ Alive(new) THEN Visits(<<"r1", "r2">>, [key |-> "-", old |-> old, new |-> new]) ELSE <<>>
       [] from = to /\ Program \notin Letters -> step(to, old, new)
       [] Program = "selection_fields" -> step(from, old, Gone) \o step(to, old, new)
       [] OTHER -> step(from, old, Gone) \o step(to, Gone, new)

StepTable == [r \in Records |-> [e \in 1..Length(r) |-> StepsMade(r, e)]]
StepsOf(r, e) == StepTable[r][e]

\* The initial view is the view of the initial base.
RECURSIVE Filled(_, _)
Filled(k, rs) ==
  IF rs = {} THEN Empty
  ELSE LET r == CHOOSE r \in rs : TRUE
           row == Versions(r)[1]
           before == Filled(k, rs \ {r})
       IN CASE Program \in JoinRead -> IF Alive(Versions(k)[1])
                 THEN [left |-> Versions(k)[1], right |-> BaseRead(RowsAt(First), k, Versions(k)[1], k)] ELSE Empty
            [] Program \in SetRead -> [member |-> IF Recompute(RowsAt(First), k) = <<>> THEN 0 ELSE 1]
            [] Program \in MinReading -> BaseRead(RowsAt(First), r, row, k)
            [] k \in KeysOf(r, row) -> Absorb(before, r, Gone, row, Empty)
            [] OTHER -> before

Loaded(value) == IF ~Shows(value) THEN [Untouched EXCEPT !.value = value]
                 ELSE [Untouched EXCEPT !.value = value, !.version = 1, !.mark = IF Rule("mark") THEN <<"load", 0>> ELSE NoMark]

Init ==
  /\ under \in FaultSets
  /\ base = IF Program \in BaseReading THEN First ELSE Final
  /\ done = [r \in Records |-> {}]
  /\ view = [k \in Keys |-> Loaded(Filled(k, Records))]
  /\ manager = [m \in Managers |-> Idle]
  /\ orphans = {}
  /\ faults = IF Faulty THEN Faults ELSE 0
  /\ shown = [o \in Observers |-> <<AnswerOf(First, o)>>]

\* A writer changes a base record; the entry is now in its stream.
WriteBase(r) ==
  /\ base[r] < Length(r)
  /\ base' = [base EXCEPT ![r] = @ + 1]
  /\ UNCHANGED <<under, done, view, manager, orphans, faults, shown>>

Busy(r) == \E m \in Managers : manager[m].stage # "idle" /\ manager[m].record = r
InHand(r, e) == \E m \in Managers : manager[m].stage # "idle" /\ manager[m].record = r /\ manager[m].entry = e

\* A stream has an owner, who gets it again after a crash; what is delivered again while the owner is thought dead goes
\* to anybody. More freedom: any manager takes anything; less (stories): nothing comes again but after a crash.
Owner(r) == IF r = "r1" \/ under = "late" \/ "m2" \notin Managers THEN "m1" ELSE "m2"
AnyManager == Rule("any manager") /\ under \in {"given", "unordered"}

Referring(r, e) == IF Program \in JoinRead /\ ~OnLeft(r)
                   THEN {q \in Records : OnLeft(q) /\ RowsAt(base)[q].x = Versions(r)[e + 1].x} ELSE {}

\* A manager is handed an entry. Flow control: the next one of its record, no other of it in hand.
\* Delivered again (a fault): any entry that is done or in hand.
Take(m, r, e) ==
  /\ manager[m].stage = "idle"
  /\ e <= base[r]
  /\ \/ /\ AnyManager \/ m = Owner(r)
        /\ e \notin done[r] /\ ~InHand(r, e)
        /\ InOrder => /\ \A f \in 1..(e - 1) : f \in done[r]
                      /\ ~Busy(r)
        /\ UNCHANGED faults
     \/ /\ Rule("any delivery") /\ Zombies
        /\ e \in done[r] \/ InHand(r, e)
        /\ faults > 0
        /\ faults' = faults - 1
  /\ manager' = [manager EXCEPT ![m] = [Idle EXCEPT !.stage = "read", !.record = r, !.entry = e,
                                                           !.found = Referring(r, e)]]
  /\ UNCHANGED <<under, base, done, view, orphans, shown>>

EntryId(m) == 2 * manager[m].entry + manager[m].step
StepNow(m) == StepsOf(manager[m].record, manager[m].entry)[manager[m].step]
Finished(m) == manager[m].step > Len(StepsOf(manager[m].record, manager[m].entry))

\* Every step is absorbed: the entry is acknowledged.
Acknowledge(m) ==
  /\ manager[m].stage = "read" /\ Finished(m)
  /\ done' = [done EXCEPT ![manager[m].record] = @ \union {manager[m].entry}]
  /\ manager' = [manager EXCEPT ![m] = Idle]
  /\ UNCHANGED <<under, base, view, orphans, faults, shown>>

NextStep(m) == [manager EXCEPT ![m] = [@ EXCEPT !.step = @ + 1, !.stage = "read", !.request = NoRequest]]
ReadAgain(m) == [manager EXCEPT ![m] = [@ EXCEPT !.stage = "read", !.request = NoRequest]]

Processed(m, stored) == Rule("signature") /\ stored.entries[manager[m].record] >= EntryId(m)

\* Not about this view record after all: the base row of the left side did not refer to this right row.
Elsewhere(m) == Program \in JoinRead /\ ~OnLeft(manager[m].record) /\ StepNow(m).key \notin manager[m].found

Request(m, stored, read) ==
  [key |-> StepNow(m).key, version |-> stored.version, mark |-> stored.mark,
   next |-> IF Rule("mark") THEN <<manager[m].record, EntryId(m)>> ELSE NoMark,
   entries |-> [stored.entries EXCEPT ![manager[m].record] = IF @ > EntryId(m) THEN @ ELSE EntryId(m)],
   value |-> Absorb(stored.value, manager[m].record, StepNow(m).old, StepNow(m).new, read)]

\* Nothing to put and nothing to delete: the entry leaves its mark, or (rule off, the paper's letter) nothing at all.
MarkOnly(m, stored, request) ==
  /\ request.value = stored.value
  /\ \/ Program \in MinReading \/ ~Shows(stored.value)
     \/ Program \in JoinRead /\ ~OnLeft(manager[m].record) /\ stored.value.left.x # StepNow(m).new.x
Sending(m, stored, request) ==
  IF MarkOnly(m, stored, request) /\ ~Rule("mark always") THEN NextStep(m)
  ELSE [manager EXCEPT ![m] = [@ EXCEPT !.stage = "wait", !.request = request]]

\* The program reads the view record; done already: next step; else its test-and-set leaves, or the base is read first.
Read(m) ==
  /\ manager[m].stage = "read" /\ ~Finished(m)
  /\ LET stored == view[StepNow(m).key]
     IN manager' = CASE Processed(m, stored) \/ Elsewhere(m) -> NextStep(m)
                     [] Program \in BaseReading -> [manager EXCEPT ![m] = [@ EXCEPT !.stage = "read base", !.request =
                          [key |-> StepNow(m).key, version |-> stored.version, mark |-> stored.mark, next |-> NoMark,
                           entries |-> stored.entries, value |-> stored.value]]]
                     [] OTHER -> Sending(m, stored, Request(m, stored, Empty))
  /\ UNCHANGED <<under, base, done, view, orphans, faults, shown>>

ReadBase(m) ==
  /\ manager[m].stage = "read base"
  /\ LET read == BaseRead(RowsAt(base), manager[m].record, StepNow(m).new, StepNow(m).key)
         stored == manager[m].request
     IN manager' = Sending(m, stored, Request(m, stored, read))
  /\ UNCHANGED <<under, base, done, view, orphans, faults, shown>>

\* Deletion must not forget: without permanent signatures an empty record loses its signature.
Stored(request) ==
  IF Rule("permanent signature") \/ Shows(request.value)
  THEN [version |-> request.version + 1, mark |-> request.next, entries |-> request.entries, value |-> request.value]
  ELSE Untouched

Accepts(request) ==
  Rule("test-and-set") => /\ view[request.key].version = request.version
                          /\ view[request.key].mark = request.mark

ShowNow(after) ==
  [o \in Observers |-> LET now == IF o = View THEN [k \in Keys |-> ShownOf(after[k].value)] ELSE ShownOf(after[o].value)
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
  /\ UNCHANGED <<under, base, done, orphans, faults>>

\* Unknown: the manager hears nothing; the request may have been applied, may be applied late, or never.
Unknown(m) ==
  /\ manager[m].stage = "wait" /\ faults > 0
  /\ faults' = faults - 1
  /\ manager' = ReadAgain(m)
  /\ \/ Accepts(manager[m].request) /\ Apply(manager[m].request) /\ UNCHANGED orphans
     \/ Zombies /\ orphans' = orphans \union {manager[m].request} /\ UNCHANGED <<view, shown>>
  /\ UNCHANGED <<under, base, done>>

\* Surely not sent: the manager knows, and reads again.
NotSent(m) ==
  /\ manager[m].stage = "wait" /\ faults > 0
  /\ faults' = faults - 1
  /\ manager' = ReadAgain(m)
  /\ UNCHANGED <<under, base, done, view, orphans, shown>>

\* The manager stops, wherever it is; its request, if any, is on its way, or was carried out. Without zombies its
\* entries come again, to nobody else, in order from some checkpoint on.
Crash(m) ==
  /\ manager[m].stage # "idle" \/ ~Zombies
  /\ faults > 0
  /\ faults' = faults - 1
  /\ IF Zombies THEN done' = done
     ELSE \E kept \in 0..2 : done' = [r \in Records |-> IF Owner(r) = m THEN done[r] \intersect 1..kept ELSE done[r]]
  /\ \/ /\ orphans' = IF manager[m].stage = "wait" /\ Zombies THEN orphans \union {manager[m].request} ELSE orphans
        /\ UNCHANGED <<view, shown>>
     \/ /\ manager[m].stage = "wait" /\ ~Zombies /\ Accepts(manager[m].request)
        /\ Apply(manager[m].request)
        /\ UNCHANGED orphans
  /\ manager' = [manager EXCEPT ![m] = Idle]
  /\ UNCHANGED <<under, base>>

Late(request) ==
  /\ orphans' = orphans \ {request}
  /\ IF Accepts(request) THEN Apply(request) ELSE UNCHANGED <<view, shown>>
  /\ UNCHANGED <<under, base, done, manager, faults>>

Never(request) ==
  /\ orphans' = orphans \ {request}
  /\ UNCHANGED <<under, base, done, view, manager, faults, shown>>

Next ==
  \/ \E r \in Records : WriteBase(r)
  \/ \E m \in Managers : \/ \E r \in Records : \E e \in 1..Length(r) : Take(m, r, e)
                         \/ Acknowledge(m) \/ Read(m) \/ ReadBase(m) \/ Answered(m) \/ Unknown(m) \/ NotSent(m) \/ Crash(m)
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
ConvergedInv == Quiet => \A o \in Observers : Claims!Converged(o, shown[o])

\* The next three are looked at when a run is over: `shown` forgets nothing, and every run can be finished.

\* Every state a view record showed is the view of some base state.
WeakInv == Quiet => \A o \in Observers : Claims!Weak(o, shown[o])

\* Any two states shown are explained by base states in the same order.
PairwiseInv == Quiet => \A o \in Observers : Claims!Pairwise(o, shown[o])

\* One monotone sequence of base states explains everything shown.
ChainInv == Quiet => \A o \in Observers : Claims!Chain(o, shown[o])

\* Nothing of some serialization of the base updates was left out.
CompleteInv == Quiet => \A o \in Observers : Claims!Complete(o, shown[o])

\* The level of what an observer was shown: 0 not even converged, then converged, weak, strong (chain), complete.
LevelOf(o) ==
  CASE ~Claims!Converged(o, shown[o]) -> 0
    [] Claims!Chain(o, shown[o])      -> IF Claims!Complete(o, shown[o]) THEN 4 ELSE 3
    [] Claims!Weak(o, shown[o])       -> 2
    [] OTHER                          -> 1
WorstOf(os) == LET levels == {LevelOf(o) : o \in os} IN CHOOSE n \in levels : \A other \in levels : n <= other

\* Never broken: it says which levels finished runs have (of the worst record, and of the whole view), each once.
ASSUME TLCSet(1, {})
Noted(found) == found \in TLCGet(1) \/ (TLCSet(1, TLCGet(1) \union {found}) /\ PrintT(found))
LevelsInv == Quiet => Noted(<<"level", under, WorstOf(Keys), LevelOf(View)>>)

\* Broken = a finished run was found: how stories of runs that end well are made.
UnfinishedInv == ~Quiet

\* Every base update is eventually absorbed and acknowledged.
AbsorbedProp == <>[](\A r \in Records : done[r] = 1..Length(r))
=============================================================================

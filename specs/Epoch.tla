------------------------------- MODULE Epoch -------------------------------
(* The epoch protocol: one control row, a pin, DELTA, buckets in two stages, publishing, commit. Every    *)
(* driver may be paused anywhere and for ever, so each is a possible zombie of the others; requests may be *)
(* applied late or never. Base rows sit in groups; stage 1 counts the rows of each group (buckets "a" and *)
(* "b"), stage 2 counts the groups that have any (bucket "t"). What a stage touches it works on side by   *)
(* side; between stages lies a barrier. `tooling/epoch_stories.py` replays behaviours with the real drivers. *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Drivers,
          Off,       \* rules switched off
          Entries,   \* length of the feed: each epoch pins at least one entry
          Lates      \* requests that may be left behind by their sender

Rule(name) == name \notin Off
Rows == <<"r1", "r2">>
RowSet == {"r1", "r2"}
Groups == {"a", "b"}

\* The feed: which row is now in which group.
Feed == <<[row |-> "r1", to |-> "a"], [row |-> "r2", to |-> "a"],
          [row |-> "r1", to |-> "b"], [row |-> "r2", to |-> "b"]>>

RECURSIVE BaseAt(_)
BaseAt(p) == IF p = 0 THEN [r \in RowSet |-> "-"] ELSE [BaseAt(p - 1) EXCEPT ![Feed[p].row] = Feed[p].to]
CountAt(p, g) == Cardinality({r \in RowSet : BaseAt(p)[r] = g})
Buckets == {"a", "b", "t"}
ViewAt == [p \in 0..Entries |-> [b \in Buckets |->
             IF b = "t" THEN Cardinality({g \in Groups : CountAt(p, g) > 0}) ELSE CountAt(p, b)]]

VARIABLES control,    \* [c, since, until]: committed epoch, feed position it ends at, pin of c + 1 (0: none)
          pins,       \* epoch -> feed position it was pinned to (kept for the claims only)
          delta,      \* row -> [now, epoch, before]
          state,      \* bucket -> [signature, now, epoch, before]
          published,  \* bucket -> [value, time]
          driver, late, lates
vars == <<control, pins, delta, state, published, driver, late, lates>>

\* A driver: `left` is what its stage still has to do, item -> what comes next and with what; `open` the items of the
\* round it is in (all of them, if each goes at its own pace, as in tasks); `asked` the pin it asked to commit with.
NoChange == [r \in RowSet |-> <<"-", "-">>]
NoOutput == [b \in Buckets |-> <<0, 0>>]
Nothing == <<>>
Resting == [at |-> "start", e |-> 0, since |-> 0, until |-> 0, left |-> Nothing, open |-> {}, moved |-> NoChange,
            out |-> NoOutput, asked |-> {}]

Init ==
  /\ control = [c |-> 0, since |-> 0, until |-> 0]
  /\ pins = [e \in 0..Entries |-> 0]
  /\ delta = [r \in RowSet |-> [now |-> "-", epoch |-> 0, before |-> "-"]]
  /\ state = [b \in Buckets |-> [signature |-> 0, now |-> 0, epoch |-> 0, before |-> 0]]
  /\ published = [b \in Buckets |-> [value |-> 0, time |-> 0]]
  /\ driver = [d \in Drivers |-> Resting]
  /\ late = {}
  /\ lates = Lates

Set(d, value) == driver' = [driver EXCEPT ![d] = value]
Leave(message) == lates > 0 /\ message \notin late /\ lates' = lates - 1 /\ late' = late \union {message}

(* ---- stages: what they touch ---- *)
Touched(my) == {Feed[p].row : p \in (my.since + 1)..my.until}

\* What a work item covers: a bucket with all changes, or (rule off) a bucket with the changes of one row.
Parts == IF Rule("combine") THEN {RowSet} ELSE {{r} : r \in RowSet}
Moves(my, rs, b, side) == Cardinality({r \in rs : my.moved[r][side] = b})
Lives(my, side) == Cardinality({g \in Groups : my.out[g][side] > 0})
Entering(my, b, rs) == IF b = "t" THEN Lives(my, 2) ELSE Moves(my, rs, b, 2)
Leaving(my, b, rs) == IF b = "t" THEN Lives(my, 1) ELSE Moves(my, rs, b, 1)
Less(n, m) == IF n >= m THEN n - m ELSE 0
Combined(my, b, rs, n) == Less(n + Entering(my, b, rs), Leaving(my, b, rs))

\* Changes are combined on their way: what nets to nothing touches nothing.
Concerned(my, bs, parts) == {item \in bs \X parts : Entering(my, item[1], item[2]) # Leaving(my, item[1], item[2])}

\* Tables of published rows; one request each, whose rows are put one by one.
Tables == IF Rule("row by row") THEN {{"a"}, {"b"}, {"t"}} ELSE {{"a", "b"}, {"t"}}
Shows(my) == {rows \in Tables : \E b \in rows : my.out[b][1] # my.out[b][2]}

ToRead == [is |-> "read", want |-> Nothing]
Start(my, at, items, do) == [my EXCEPT !.at = at, !.left = [x \in items |-> do], !.open = items]
OnTo(my, at, items, do) == IF items = {} THEN [my EXCEPT !.at = at, !.left = Nothing] ELSE Start(my, at, items, do)

\* The next stage that has anything to do; the commit ends them all.
AfterZone2(my) ==
  LET next == IF Rule("publish before commit") THEN OnTo(my, "publish", Shows(my), ToRead) ELSE my
  IN IF next.left = Nothing THEN [my EXCEPT !.at = "commit", !.left = Nothing] ELSE next
AfterZone1(my) == LET next == OnTo(my, "two", Concerned(my, {"t"}, {RowSet}), ToRead)
                  IN IF next.left = Nothing THEN AfterZone2(next) ELSE next
AfterDelta(my) == LET next == OnTo(my, "one", Concerned(my, Groups, Parts), ToRead)
                  IN IF next.left = Nothing THEN AfterZone1(next) ELSE next
Then(my) == CASE my.left # Nothing    -> my
              [] my.at = "delta"      -> AfterDelta(my)
              [] my.at = "one"        -> AfterZone1(my)
              [] my.at = "two"        -> AfterZone2(my)
              [] OTHER                -> IF Rule("publish before commit") THEN [my EXCEPT !.at = "commit"] ELSE Resting

\* The request of item x was answered: it goes on to `is`, or is done, or must stop the driver. A round ends when all
\* its answers have come; only then is what must stop noticed, so other requests of the round may still go out.
Without(f, x) == [y \in DOMAIN f \ {x} |-> f[y]]
Going(left) == {x \in DOMAIN left : left[x].is # "stop"}
Answered(my, x, left) ==
  LET rest == my.open \ {x}
  IN Then([my EXCEPT !.left = left, !.open = CASE Rule("own pace") -> Going(left)
                                               [] rest # {} -> rest
                                               [] Going(left) = DOMAIN left -> DOMAIN left
                                               [] OTHER -> {}])
GoesOn(my, x, is, want) == Answered(my, x, [my.left EXCEPT ![x] = [is |-> is, want |-> want]])
Done(my, x) == Answered(my, x, Without(my.left, x))
Halt(my, x) == GoesOn(my, x, "stop", Nothing)
May(d, x, at, is) == driver[d].at \in at /\ x \in driver[d].open /\ driver[d].left[x].is = is

\* A driver that found something newer stops.
Stop(d) ==
  /\ \E x \in DOMAIN driver[d].left : driver[d].left[x].is = "stop"
  /\ Set(d, Resting)
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

(* ---- control row ---- *)
\* No epoch starts without a pin; a pin is never changed.
PinNext ==
  /\ control.until = 0
  /\ \E until \in (control.since + 1)..Entries :
       /\ control' = [control EXCEPT !.until = until]
       /\ pins' = [pins EXCEPT ![control.c + 1] = until]
  /\ UNCHANGED <<delta, state, published, driver, late, lates>>

Began(until) ==
  LET my == [Resting EXCEPT !.e = control.c + 1, !.since = control.since, !.until = until]
  IN Start(my, "delta", Touched(my), ToRead)

Begin(d) ==
  /\ driver[d].at = "start" /\ control.until > 0
  /\ \E until \in IF Rule("pin") THEN {control.until} ELSE (control.since + 1)..Entries : Set(d, Began(until))
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

(* ---- stage 0: DELTA ---- *)
Image(d, r) ==
  /\ May(d, r, {"delta"}, "read")
  /\ LET my == driver[d]
         stored == delta[r]
         emit(pair) == Set(d, GoesOn([my EXCEPT !.moved[r] = pair], r, "put", Nothing))
     IN CASE stored.epoch > my.e -> Set(d, Halt(my, r))
          [] stored.epoch = my.e -> emit(<<stored.before, stored.now>>)
          [] stored.now = BaseAt(my.until)[r] -> Set(d, Done(my, r))      \* nothing new: not put
          [] OTHER -> emit(<<stored.now, BaseAt(my.until)[r]>>)
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

PutDelta(r, e, pair) ==
  delta' = IF e >= delta[r].epoch \/ ~Rule("epoch write time")
           THEN [delta EXCEPT ![r] = [now |-> pair[2], epoch |-> e,
                                             before |-> IF Rule("before image") THEN pair[1] ELSE pair[2]]] ELSE delta

Put(d, r) ==
  /\ May(d, r, {"delta"}, "put")
  /\ LET my == driver[d]
         message == [kind |-> "put", row |-> r, e |-> my.e, pair |-> my.moved[r]]
     IN \/ /\ PutDelta(r, my.e, my.moved[r])
           /\ Set(d, Done(my, r))
           /\ UNCHANGED <<late, lates>>
        \/ /\ Leave(message)                  \* timed out: repeated, never assumed
           /\ Set(d, IF Rule("acknowledged") THEN my ELSE Done(my, r))
           /\ UNCHANGED delta
  /\ UNCHANGED <<control, pins, state, published>>

(* ---- stages 1 and 2: one combined test-and-set a bucket an epoch ---- *)
Emitted(my, x, before, now) == Done([my EXCEPT !.out[x[1]] = <<before, now>>], x)

\* A bucket that is at e is read again as a whole at SERIAL (`how` = "whole"): signature and rows of one commit. What
\* was written for e must be what this driver computes: then the same is emitted again.
Bucket(d, x, how) ==
  /\ May(d, x, {"one", "two"}, how)
  /\ LET my == driver[d]
         stored == state[x[1]]
         now == Combined(my, x[1], x[2], stored.now)
         same == stored.epoch = my.e /\ stored.now = Combined(my, x[1], x[2], stored.before)
         set == [signature |-> my.e, now |-> now, epoch |-> my.e, before |-> stored.now]
     IN CASE stored.signature > my.e /\ Rule("equality") -> Set(d, Halt(my, x))
          [] stored.signature = my.e /\ how = "read" -> Set(d, GoesOn(my, x, "whole", Nothing))
          [] stored.signature = my.e /\ how = "whole" ->
               IF same \/ ~Rule("replays checked") THEN Set(d, Emitted(my, x, stored.before, stored.now)) ELSE Set(d, Halt(my, x))
          [] stored.signature > my.e /\ ~Rule("equality") ->      \* a newer row taken for that of the epoch before
               Set(d, GoesOn(my, x, "set", <<stored.signature, how, [set EXCEPT !.now = Combined(my, x[1], x[2], stored.before), !.before = stored.before]>>))
          [] OTHER -> Set(d, GoesOn(my, x, "set", <<stored.signature, how, set>>))
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

Accepts(b, want) == Rule("exact condition") => state[b].signature = want[1]

SetBucket(d, x) ==
  /\ May(d, x, {"one", "two"}, "set")
  /\ LET my == driver[d]
         want == my.left[x].want
         again == GoesOn(my, x, want[2], Nothing)     \* everything computed from the bucket is thrown away
     IN \/ /\ IF Accepts(x[1], want)
              THEN state' = [state EXCEPT ![x[1]] = want[3]] /\ Set(d, Emitted(my, x, want[3].before, want[3].now))
              ELSE UNCHANGED state /\ Set(d, again)
           /\ UNCHANGED <<late, lates>>
        \/ /\ Leave([kind |-> "set", bucket |-> x[1], want |-> want])     \* unknown: read again
           /\ Set(d, again)
           /\ UNCHANGED state
  /\ UNCHANGED <<control, pins, delta, published>>

\* Without permanent signatures: a bucket whose rows are dead and committed may vanish, signature and all.
Forget(b) ==
  /\ ~Rule("permanent signature")
  /\ state[b].now = 0 /\ state[b].signature > 0 /\ state[b].epoch <= control.c
  /\ state' = [state EXCEPT ![b] = [signature |-> 0, now |-> 0, epoch |-> 0, before |-> 0]]
  /\ UNCHANGED <<control, pins, delta, published, driver, late, lates>>

(* ---- publish, commit ---- *)
Publish(d, rows) ==
  /\ May(d, rows, {"publish"}, "read")
  /\ LET my == driver[d]
         moved == {b \in rows : my.out[b][1] # my.out[b][2]}
     IN /\ Set(d, Done(my, rows))
        /\ published' = [b \in Buckets |->
             IF b \in moved /\ my.e >= published[b].time
             THEN [value |-> my.out[b][2], time |-> my.e] ELSE published[b]]
  /\ UNCHANGED <<control, pins, delta, state, late, lates>>

NextPins(my) == {0} \union (my.until + 1)..Entries
Committed(my) == IF Rule("publish before commit") THEN Resting
                 ELSE IF Shows(my) = {} THEN Resting ELSE Start(my, "publish", Shows(my), ToRead)
\* What was pinned stands in the row, so who commits writes it again, as it knows it.
Commits(e, known, until) ==
  /\ control' = [c |-> e, since |-> IF Rule("pin") THEN known ELSE control.until, until |-> until]
  /\ pins' = IF e < Entries THEN [pins EXCEPT ![e + 1] = until] ELSE pins

\* One test-and-set commits e and pins e + 1 (or nothing). No answer: the row is read before anything else is done.
Commit(d) ==
  /\ driver[d].at = "commit"
  /\ LET my == driver[d] IN
     \E until \in IF my.asked # {} THEN my.asked ELSE IF my.e < Entries THEN NextPins(my) ELSE {0} :
       \/ /\ IF control.c = my.e - 1 THEN Commits(my.e, my.until, until) /\ Set(d, Committed(my))
             ELSE UNCHANGED <<control, pins>> /\ Set(d, Resting)
          /\ UNCHANGED <<late, lates>>
       \/ /\ Leave([kind |-> "commit", e |-> my.e, known |-> my.until, until |-> until])
          /\ Set(d, IF Rule("commit known") \/ until = 0 THEN [my EXCEPT !.at = "unknown", !.asked = {until}]
                    ELSE LET next == [Resting EXCEPT !.e = my.e + 1, !.since = my.until, !.until = until]
                         IN Start(next, "delta", Touched(next), ToRead))
          /\ UNCHANGED <<control, pins>>
  /\ UNCHANGED <<delta, state, published>>

\* Nothing moved: the same is asked again. Else what stands is where it goes on.
Resolve(d) ==
  /\ driver[d].at = "unknown"
  /\ Set(d, IF control.c = driver[d].e - 1 THEN [driver[d] EXCEPT !.at = "commit"]
            ELSE IF control.until > 0 /\ Rule("pin") THEN Began(control.until) ELSE Resting)
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

(* ---- what was left behind arrives, or never does ---- *)
Arrive(message) ==
  /\ late' = late \ {message}
  /\ \/ UNCHANGED <<control, pins, delta, state>>
     \/ message.kind = "put" /\ PutDelta(message.row, message.e, message.pair) /\ UNCHANGED <<control, pins, state>>
     \/ /\ message.kind = "set" /\ Accepts(message.bucket, message.want)
        /\ state' = [state EXCEPT ![message.bucket] = message.want[3]] /\ UNCHANGED <<control, pins, delta>>
     \/ /\ message.kind = "commit" /\ control.c = message.e - 1
        /\ Commits(message.e, message.known, message.until)
        /\ UNCHANGED <<delta, state>>
  /\ UNCHANGED <<published, driver, lates>>

Step(d) ==
  \/ Begin(d) \/ Commit(d) \/ Resolve(d) \/ Stop(d)
  \/ \E x \in driver[d].open : Image(d, x) \/ Put(d, x) \/ SetBucket(d, x) \/ Publish(d, x)
                               \/ Bucket(d, x, "read") \/ Bucket(d, x, "whole")
Next == PinNext \/ (\E d \in Drivers : Step(d)) \/ (\E b \in Buckets : Forget(b)) \/ (\E m \in late : Arrive(m))
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_vars(PinNext) /\ \A d \in Drivers : WF_vars(Step(d))

AsOf(row, c) == IF row.epoch <= c THEN row.now ELSE row.before

\* DELTA as of the committed epoch is the base at the committed feed position; no row is two epochs ahead.
DeltaInv == \A r \in RowSet : /\ AsOf(delta[r], control.c) = BaseAt(control.since)[r]
                              /\ delta[r].epoch <= control.c + 1

\* Every bucket as of the committed epoch is the view of that base: each epoch took effect exactly once.
CommittedInv == \A b \in Buckets : /\ AsOf(state[b], control.c) = ViewAt[control.since][b]
                                   /\ state[b].epoch <= control.c + 1

\* A published row is the view at the committed epoch or the one being written, and says which.
PublishedInv == \A b \in Buckets :
  /\ published[b].time <= control.c + 1
  /\ published[b].value = ViewAt[IF published[b].time <= control.c THEN control.since ELSE control.until][b]

\* Published rows never step back: with the claim above, each shows a chain of base states.
PublishedForwardProp == [][\A b \in Buckets : published'[b].time >= published[b].time]_published

\* Every change is committed in the end, if drivers that can go on do.
AllCommittedProp == <>(control.since = Entries)
=============================================================================

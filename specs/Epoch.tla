------------------------------- MODULE Epoch -------------------------------
(* The epoch protocol: one control row, a pin, DELTA, buckets in two stages, publishing, commit. Every    *)
(* driver may be paused anywhere and for ever, so each is a possible zombie of the others; requests may be *)
(* applied late or never. Base rows sit in groups; stage 1 counts the rows of each group (buckets "a" and *)
(* "b"), stage 2 counts the groups that have any (bucket "t").                                             *)
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

NoChange == [r \in RowSet |-> <<"-", "-">>]
NoOutput == [b \in Buckets |-> <<0, 0>>]
Resting == [at |-> "start", e |-> 0, since |-> 0, until |-> 0, i |-> 1, moved |-> NoChange, out |-> NoOutput,
            touched |-> {}, want |-> <<>>]

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
Stop(d) == Set(d, Resting)
Leave(message) == lates > 0 /\ lates' = lates - 1 /\ late' = late \union {message}

(* ---- control row ---- *)
\* No epoch starts without a pin; a pin is never changed.
PinNext ==
  /\ control.until = 0
  /\ \E until \in (control.since + 1)..Entries :
       /\ control' = [control EXCEPT !.until = until]
       /\ pins' = [pins EXCEPT ![control.c + 1] = until]
  /\ UNCHANGED <<delta, state, published, driver, late, lates>>

Begin(d) ==
  /\ driver[d].at = "start" /\ control.until > 0
  /\ \E until \in IF Rule("pin") THEN {control.until} ELSE (control.since + 1)..Entries :
       Set(d, [Resting EXCEPT !.at = "delta", !.e = control.c + 1, !.since = control.since, !.until = until])
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

(* ---- stage 0: DELTA ---- *)
Row(d) == Rows[driver[d].i]
Touches(d, r) == \E p \in (driver[d].since + 1)..driver[d].until : Feed[p].row = r
After(d, r) == BaseAt(driver[d].until)[r]

Delta(d) ==
  /\ driver[d].at = "delta"
  /\ LET my == driver[d] IN
     IF my.i > Len(Rows) THEN Set(d, [my EXCEPT !.at = "bucket", !.i = 1])
     ELSE IF ~Touches(d, Row(d)) THEN Set(d, [my EXCEPT !.i = @ + 1])
     ELSE LET stored == delta[Row(d)]
              again == IF Rule("before image") THEN <<stored.before, stored.now>> ELSE <<stored.now, stored.now>>
              emit(pair) == Set(d, [my EXCEPT !.at = "put", !.moved[Row(d)] = pair])
          IN CASE stored.epoch > my.e /\ Rule("equality") -> Stop(d)
               [] stored.epoch >= my.e -> emit(again)
               [] OTHER -> emit(<<stored.now, After(d, Row(d))>>)
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

PutDelta(r, e, pair) ==
  delta' = IF e >= delta[r].epoch \/ ~Rule("epoch write time")
           THEN [delta EXCEPT ![r] = [now |-> pair[2], epoch |-> e, before |-> pair[1]]] ELSE delta

Put(d) ==
  /\ driver[d].at = "put"
  /\ LET my == driver[d]
         message == [kind |-> "put", row |-> Row(d), e |-> my.e, pair |-> my.moved[Row(d)]]
     IN \/ /\ PutDelta(Row(d), my.e, my.moved[Row(d)])
           /\ Set(d, [my EXCEPT !.at = "delta", !.i = @ + 1])
           /\ UNCHANGED <<late, lates>>
        \/ /\ Leave(message)                  \* timed out: repeated, never assumed
           /\ Set(d, IF Rule("acknowledged") THEN my ELSE [my EXCEPT !.at = "delta", !.i = @ + 1])
           /\ UNCHANGED delta
  /\ UNCHANGED <<control, pins, state, published>>

(* ---- stages: one combined test-and-set a bucket an epoch ---- *)
\* What a work item covers: a bucket with all changes, or (rule off) a bucket with the changes of one row.
Work == IF Rule("combine") THEN << <<"a", RowSet>>, <<"b", RowSet>>, <<"t", RowSet>> >>
        ELSE << <<"a", {"r1"}>>, <<"a", {"r2"}>>, <<"b", {"r1"}>>, <<"b", {"r2"}>>, <<"t", RowSet>> >>

Moves(d, rs, b, side) == Cardinality({r \in rs : driver[d].moved[r][side] = b})
LivesOf(d, side) == Cardinality({g \in driver[d].touched : driver[d].out[g][side] > 0})
Concerns(d, b, rs) ==
  IF b = "t" THEN driver[d].touched # {}
  ELSE \E r \in rs : Touches(d, r) /\ b \in {driver[d].moved[r][1], driver[d].moved[r][2]}
Less(n, m) == IF n >= m THEN n - m ELSE 0
Combined(d, b, rs, n) == IF b = "t" THEN Less(n + LivesOf(d, 2), LivesOf(d, 1))
                         ELSE Less(n + Moves(d, rs, b, 2), Moves(d, rs, b, 1))

Emitted(my, b, row) == [my EXCEPT !.at = "bucket", !.i = @ + 1, !.touched = @ \union {b}, !.want = <<>>,
                                  !.out[b] = <<row.before, row.now>>]

Bucket(d) ==
  /\ driver[d].at = "bucket"
  /\ LET my == driver[d] IN
     IF my.i > Len(Work)
     THEN Set(d, [my EXCEPT !.at = IF Rule("publish before commit") THEN "publish" ELSE "commit", !.i = 1])
     ELSE LET b == Work[my.i][1]
              stored == state[b]
              now == Combined(d, b, Work[my.i][2], stored.now)
          IN CASE ~Concerns(d, b, Work[my.i][2]) -> Set(d, [my EXCEPT !.i = @ + 1])
               [] Concerns(d, b, Work[my.i][2]) /\ stored.signature > my.e /\ Rule("equality") -> Stop(d)
               [] Concerns(d, b, Work[my.i][2]) /\ stored.signature >= my.e /\ (stored.signature = my.e \/ ~Rule("equality")) ->
                    Set(d, Emitted(my, b, stored))
               [] OTHER -> Set(d, [my EXCEPT !.at = "set", !.want =
                    <<stored.signature, [signature |-> my.e, now |-> now, epoch |-> my.e, before |-> stored.now]>>])
  /\ UNCHANGED <<control, pins, delta, state, published, late, lates>>

Accepts(b, want) == IF Rule("exact condition") THEN state[b].signature = want[1]
                    ELSE TRUE

SetBucket(d) ==
  /\ driver[d].at = "set"
  /\ LET my == driver[d]
         b == Work[my.i][1]
     IN \/ /\ IF Accepts(b, my.want)
              THEN state' = [state EXCEPT ![b] = my.want[2]] /\ Set(d, Emitted(my, b, my.want[2]))
              ELSE UNCHANGED state /\ Set(d, [my EXCEPT !.at = "bucket", !.want = <<>>])
           /\ UNCHANGED <<late, lates>>
        \/ /\ Leave([kind |-> "set", bucket |-> b, want |-> my.want])     \* unknown: read again
           /\ Set(d, [my EXCEPT !.at = "bucket", !.want = <<>>])
           /\ UNCHANGED state
  /\ UNCHANGED <<control, pins, delta, published>>

\* Without permanent signatures: a bucket whose rows are dead and committed may vanish, signature and all.
Forget(b) ==
  /\ ~Rule("permanent signature")
  /\ state[b].now = 0 /\ state[b].signature > 0 /\ state[b].epoch <= control.c
  /\ state' = [state EXCEPT ![b] = [signature |-> 0, now |-> 0, epoch |-> 0, before |-> 0]]
  /\ UNCHANGED <<control, pins, delta, published, driver, late, lates>>

(* ---- publish, commit ---- *)
Order == <<"a", "b", "t">>
Publish(d) ==
  /\ driver[d].at = "publish"
  /\ LET my == driver[d] IN
     IF my.i > Len(Order)
     THEN /\ Set(d, IF Rule("publish before commit") THEN [my EXCEPT !.at = "commit", !.i = 1] ELSE Resting)
          /\ UNCHANGED published
     ELSE LET b == Order[my.i] IN
          /\ Set(d, [my EXCEPT !.i = @ + 1])
          /\ published' = IF b \in my.touched /\ (my.e >= published[b].time \/ ~Rule("epoch write time"))
                          THEN [published EXCEPT ![b] = [value |-> my.out[b][2], time |-> my.e]] ELSE published
  /\ UNCHANGED <<control, pins, delta, state, late, lates>>

NextPins(my) == {0} \union (my.until + 1)..Entries

\* One test-and-set commits e and pins e + 1 (or nothing).
Commit(d) ==
  /\ driver[d].at = "commit"
  /\ LET my == driver[d] IN
     \E until \in IF my.e < Entries /\ Rule("pin") THEN NextPins(my) ELSE {0} :
       \/ /\ IF control.c = my.e - 1
             THEN /\ control' = [c |-> my.e, since |-> control.until, until |-> until]
                  /\ pins' = IF my.e < Entries THEN [pins EXCEPT ![my.e + 1] = until] ELSE pins
             ELSE UNCHANGED <<control, pins>>
          /\ Set(d, IF Rule("publish before commit") THEN Resting ELSE [my EXCEPT !.at = "publish"])
          /\ UNCHANGED <<late, lates>>
       \/ /\ Leave([kind |-> "commit", e |-> my.e, until |-> until])
          /\ Set(d, IF Rule("commit known") \/ until = 0 THEN Resting
                    ELSE [Resting EXCEPT !.at = "delta", !.e = my.e + 1, !.since = my.until, !.until = until])
          /\ UNCHANGED <<control, pins>>
  /\ UNCHANGED <<delta, state, published>>

(* ---- what was left behind arrives, or never does ---- *)
Arrive(message) ==
  /\ late' = late \ {message}
  /\ \/ UNCHANGED <<control, pins, delta, state>>
     \/ message.kind = "put" /\ PutDelta(message.row, message.e, message.pair) /\ UNCHANGED <<control, pins, state>>
     \/ /\ message.kind = "set" /\ Accepts(message.bucket, message.want)
        /\ state' = [state EXCEPT ![message.bucket] = message.want[2]] /\ UNCHANGED <<control, pins, delta>>
     \/ /\ message.kind = "commit" /\ control.c = message.e - 1
        /\ control' = [c |-> message.e, since |-> control.until, until |-> message.until]
        /\ pins' = IF message.e < Entries THEN [pins EXCEPT ![message.e + 1] = message.until] ELSE pins
        /\ UNCHANGED <<delta, state>>
  /\ UNCHANGED <<published, driver, lates>>

Step(d) == Begin(d) \/ Delta(d) \/ Put(d) \/ Bucket(d) \/ SetBucket(d) \/ Publish(d) \/ Commit(d)
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

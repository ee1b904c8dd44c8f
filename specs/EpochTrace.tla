----------------------------- MODULE EpochTrace -----------------------------
(* Does what drivers of a pipeline asked of storage fit the epoch protocol? Each request is an event; the one  *)
(* hidden step is the moment a test-and-set takes effect. The generated module that extends this one gives the *)
(* log as a literal. NotMatchedInv broken = matched to the last event; no violation = some event fits nothing. *)
(*                                                                                                             *)
(*   action of Epoch        events                                   checked                                 *)
(*   PinNext, Commit        call, return of the control bucket       from c to c pinned, or to c + 1; a pin  *)
(*                                                                   takes the feed up where the last ended  *)
(*   Begin, Resolve         read of the control bucket               the epoch the driver runs               *)
(*   Image                  images                                   stage 0 comes before any bucket         *)
(*   Put                    put                                      write time = e; again: the same         *)
(*   Bucket                 read of a bucket                         a newer signature stops the driver; one *)
(*                                                                   at e counts when it was read at SERIAL  *)
(*   SetBucket              call, return of a bucket                 exact condition, images before,         *)
(*                                                                   one combined a bucket an epoch,         *)
(*                                                                   its statements counted                  *)
(*   Publish                rows                                     after every set is known, time = e      *)
(*   Commit                 call of the control bucket               every bucket and row of Must is done    *)
(*   Stop                   none: it asks for nothing more           no call and no put after it             *)
(*   Arrive                 none: hidden                             a test-and-set takes effect once        *)
(*   Forget                 none: signatures are permanent                                                   *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Log, Places, Drivers, Control, Incarnation,
          Must,   \* epoch -> buckets that the changes of that epoch lead to: of DELTA's images, zone after zone
          Show    \* epoch -> rows of published tables that they lead to

VARIABLES i, stored,
          past,   \* place -> its last states: a read may be answered late
          asked,  \* test-and-sets on their way; `lost`: nobody waits for the answer any more
          images, shown, driver
vars == <<i, stored, past, asked, images, shown, driver>>

Now == Log[i]
P == Now.driver
My == driver[P]
Advance(kind) == i <= Len(Log) /\ Now.kind = kind /\ i' = i + 1
Untouched == [at |-> <<Incarnation, 0, 0, TRUE>>, rows |-> <<>>]
Epoch(signature) == signature[2]
Whole(signature) == signature[4]

\* e: the epoch it runs (0: none); control, read: the control row's signature and each bucket as it saw them last; due:
\* buckets not known to be done; sure: those whose signature and rows it knows to be of one commit (H28); put: what it
\* put; over: it asked for the commit, so it writes no more. A driver that was killed is another driver afterwards.
Pinned(signature) == IF signature[3] = 1 THEN Epoch(signature) + 1 ELSE 0
Fresh(seen) == [e |-> Pinned(seen), control |-> seen, read |-> <<>>, due |-> {}, sure |-> {}, put |-> {}, staged |-> FALSE,
                stopped |-> FALSE, published |-> FALSE, over |-> FALSE]
With(f, k, v) == (k :> v) @@ f

Init ==
  /\ i = 1
  /\ stored = [p \in Places |-> Untouched]
  /\ past = [p \in Places |-> <<Untouched>>]
  /\ asked = {}
  /\ images = <<>>
  /\ shown = <<>>
  /\ driver = [d \in Drivers |-> Fresh(Untouched.at)]

Kept == 4
States(place) == {past[place][n] : n \in DOMAIN past[place]}
Seen(place, signature) == \E s \in States(place) : s.at = signature

\* A read of the control row begins an epoch, or shows that there is none to run.
Begin ==
  /\ Advance("read") /\ Now.place = Control /\ Now.serial /\ Seen(Control, Now.signature)
  /\ driver' = [driver EXCEPT ![P] = IF Now.signature = My.control THEN My ELSE Fresh(Now.signature)]
  /\ UNCHANGED <<stored, past, asked, images, shown>>

\* Requests of one round go side by side, so a driver that must stop may still read.
Read ==
  /\ Advance("read") /\ Now.place # Control
  /\ My.e > 0
  /\ \E s \in States(Now.place) :
     /\ s.at = Now.signature
     /\ LET done == Epoch(Now.signature) = My.e /\ Whole(Now.signature) /\ Now.serial
        IN driver' = [driver EXCEPT ![P] = [@ EXCEPT !.read = With(@, Now.place, s), !.staged = TRUE,
             !.due = IF done THEN @ \ {Now.place} ELSE @ \union {Now.place},
             !.sure = IF Now.serial THEN @ \union {Now.place} ELSE @ \ {Now.place},
             !.stopped = @ \/ Epoch(Now.signature) > My.e]]
  /\ UNCHANGED <<stored, past, asked, images, shown>>

ReadImages ==
  /\ Advance("images") /\ My.e > 0 /\ ~My.staged
  /\ UNCHANGED <<stored, past, asked, images, shown, driver>>

\* A put with the epoch as write time: newer wins; the same epoch again must be the very same.
PutInto(f) ==
  /\ \A k \in DOMAIN Now.puts : k \in DOMAIN f /\ f[k].time = Now.time => f[k].value = Now.puts[k]
  /\ f' = [k \in {k \in DOMAIN Now.puts : k \notin DOMAIN f \/ f[k].time < Now.time} |->
             [time |-> Now.time, value |-> Now.puts[k]]] @@ f

Put ==
  /\ Advance("put") /\ My.e > 0 /\ Now.time = My.e /\ ~My.staged /\ ~My.over
  /\ PutInto(images)
  /\ driver' = [driver EXCEPT ![P].put = @ \union DOMAIN Now.puts]
  /\ UNCHANGED <<stored, past, asked, shown>>

Publish ==
  /\ Advance("rows") /\ My.e > 0 /\ Now.time = My.e /\ ~My.stopped /\ My.due = {} /\ ~My.over
  /\ PutInto(shown)
  /\ driver' = [driver EXCEPT ![P].published = TRUE, ![P].put = @ \union DOMAIN Now.puts]
  /\ UNCHANGED <<stored, past, asked, images>>

\* A row as of the epoch before: what the put must name as its image before.
AsOf(rows, k) == IF k \notin DOMAIN rows THEN <<FALSE, "">>
                 ELSE IF rows[k].epoch = My.e THEN rows[k].before ELSE rows[k].now
Changed(rows) == Now.puts @@ [k \in DOMAIN rows \ Now.deletes |-> rows[k]]

Ask(rows) ==
  asked' = asked \union {[operation |-> Now.operation, place |-> Now.place, expected |-> Now.expected,
                          to |-> [at |-> Now.new, rows |-> rows], applied |-> FALSE, lost |-> FALSE]}

Set ==
  /\ Advance("call") /\ Now.place # Control
  /\ My.e > 0 /\ ~My.stopped /\ ~My.published /\ ~My.over
  /\ Now.place \in DOMAIN My.read /\ Now.expected = My.read[Now.place].at
  /\ Now.new[1] = Now.expected[1] /\ Epoch(Now.new) = My.e
  /\ Epoch(Now.expected) < My.e \/ (~Whole(Now.expected) /\ Now.place \in My.sure)
  /\ Now.new[3] = IF Epoch(Now.expected) < My.e THEN 0 ELSE Now.expected[3] + 1
  /\ LET s == My.read[Now.place] IN
       /\ \A k \in DOMAIN Now.puts : Now.puts[k].epoch = My.e /\ Now.puts[k].before = AsOf(s.rows, k)
       /\ \A k \in Now.deletes : k \in DOMAIN s.rows => ~s.rows[k].now[1] /\ s.rows[k].epoch < My.e
       /\ Ask(Changed(s.rows))
  /\ driver' = [driver EXCEPT ![P].due = @ \union {Now.place}]
  /\ UNCHANGED <<stored, past, images, shown>>

\* An epoch is a function of its pin: what one driver wrote for it, every driver that commits it must have done too.
Complete ==
  /\ My.due = {} /\ ~My.stopped
  /\ \A p \in Places \ {Control} : Epoch(stored[p].at) = My.e =>
       Whole(stored[p].at) /\ p \in DOMAIN My.read /\ My.read[p].at = stored[p].at
  /\ My.e \in DOMAIN Must => \A p \in Must[My.e] :
       p \in DOMAIN My.read /\ Epoch(My.read[p].at) = My.e
  /\ My.e \in DOMAIN Show => Show[My.e] \subseteq My.put
  /\ \A k \in DOMAIN images : images[k].time = My.e => k \in My.put
  /\ \A k \in DOMAIN shown : shown[k].time = My.e => k \in My.put

UntilOf(signature) == LET known == {s \in States(Control) : s.at = signature}
                      IN IF known = {} THEN <<>> ELSE (CHOOSE s \in known : TRUE).rows

\* A pin takes up every stream of the feed where the one before ended; a stream that is new begins where it likes.
TakesUp(before) ==
  \A s \in DOMAIN Now.until : /\ Now.since[s] <= Now.until[s]
                              /\ s \in DOMAIN before => Now.since[s] = before[s]

\* The control row: commit what was run to its end (and pin the next), or pin where nothing is pinned.
Step ==
  /\ Advance("call") /\ Now.place = Control
  /\ Now.expected = My.control /\ Now.new[1] = Now.expected[1]
  /\ \/ /\ Now.expected[3] = 1 /\ Epoch(Now.new) = Epoch(Now.expected) + 1
        /\ My.e = Epoch(Now.new) /\ Complete
        /\ driver' = [driver EXCEPT ![P].over = TRUE]
        /\ Now.new[3] = 1 => TakesUp(UntilOf(Now.expected))
     \/ /\ Now.expected[3] = 0 /\ Epoch(Now.new) = Epoch(Now.expected) /\ Now.new[3] = 1
        /\ TakesUp(UntilOf(Now.expected))
        /\ UNCHANGED driver
  /\ Ask(Now.until)
  /\ UNCHANGED <<stored, past, images, shown>>

\* Hidden. What asked for the signature that stood there until now can take effect no more.
Effect(request) ==
  /\ ~request.applied
  /\ stored[request.place].at = request.expected
  /\ stored' = [stored EXCEPT ![request.place] = request.to]
  /\ past' = [past EXCEPT ![request.place] =
                IF Len(@) < Kept THEN Append(@, request.to) ELSE Append(Tail(@), request.to)]
  /\ asked' = {r \in asked : r # request /\ ~(r.lost /\ r.place = request.place)}
              \union IF request.lost THEN {} ELSE {[request EXCEPT !.applied = TRUE]}
  /\ UNCHANGED <<i, images, shown, driver>>

Known(request) ==
  IF Now.outcome # "applied" THEN My
  ELSE IF request.place = Control THEN Fresh(request.to.at)
  ELSE [My EXCEPT !.read = With(@, request.place, request.to),
                  !.due = IF Whole(request.to.at) THEN @ \ {request.place} ELSE @,
                  !.sure = @ \union {request.place}]

Return ==
  /\ Advance("return")
  /\ \E request \in asked :
       /\ request.operation = Now.operation
       /\ CASE Now.outcome = "applied"  -> request.applied
            [] Now.outcome = "rejected" -> ~request.applied /\ stored[request.place].at # request.expected
            [] Now.outcome = "not_sent" -> ~request.applied
            [] Now.outcome = "unknown"  -> TRUE
       /\ asked' = (asked \ {request}) \union
            IF Now.outcome = "unknown" /\ ~request.applied /\ stored[request.place].at = request.expected
            THEN {[request EXCEPT !.lost = TRUE]} ELSE {}
       /\ driver' = [driver EXCEPT ![P] = Known(request)]
  /\ UNCHANGED <<stored, past, images, shown>>

Matched == (Begin \/ Read \/ ReadImages \/ Put \/ Publish \/ Set \/ Step \/ Return) /\ PrintT(<<"matched", i>>)
Next == Matched \/ \E request \in asked : Effect(request)
Spec == Init /\ [][Next]_vars

\* Broken = the whole log was matched.
NotMatchedInv == i <= Len(Log)
=============================================================================

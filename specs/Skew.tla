-------------------------------- MODULE Skew --------------------------------
(* H12 with clocks that differ. A write's time is its coordinator's clock, up to Apart ticks off. Each replica *)
(* logs at once what it receives; a copy arrives at most Delay ticks after the write. An epoch pins            *)
(* W = least feed clock - Bound and takes what was written at W or before. What arrives later with a time at   *)
(* or below a W already pinned contradicts what was shown: it is counted, and voids the claim for its record.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Apart, Bound, Horizon, Off

Rule(name) == name \notin Off
Base == 10    \* so that times stay natural numbers

VARIABLES now, logged, pinned, late, counted
vars == <<now, logged, pinned, late, counted>>

Init == now = 0 /\ logged = {} /\ pinned = 0 /\ late = FALSE /\ counted = FALSE

Tick == now < Horizon /\ now' = now + 1 /\ UNCHANGED <<logged, pinned, late, counted>>

\* A write is acknowledged and logged by its replica now; its time is what its coordinator's clock says.
Write ==
  \E off \in 0..(2 * Apart) :
    LET time == Base + now + off - Apart IN
    /\ time \notin logged
    /\ logged' = logged \union {time}
    /\ late' = (late \/ time <= pinned)
    /\ counted' = (counted \/ (Rule("count late ones") /\ time <= pinned))
    /\ UNCHANGED <<now, pinned>>

Bounded == IF Rule("hold back by the bound") THEN Bound ELSE 0
Pin == Base + now - Bounded - 1 > pinned /\ pinned' = Base + now - Bounded - 1 /\ UNCHANGED <<now, logged, late, counted>>

Next == Tick \/ Write \/ Pin
Spec == Init /\ [][Next]_vars

\* Nothing arrives at or below a watermark already pinned: the write-time line shown is the writers' own.
InOrderInv == ~late

\* Where clocks differ more than the bound says, the claim is void, and known to be.
KnownInv == late => counted
=============================================================================

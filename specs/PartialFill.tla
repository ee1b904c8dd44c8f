----------------------------- MODULE PartialFill -----------------------------
(* Partial views (paper 003, digest section 3): absence means unknown. Fill on miss and eviction, one view       *)
(* record. Each base entry adds one, so a row that absorbed exactly the entries up to its signature has value =   *)
(* signature. Every step is one test-and-set in its retry loop, which is atomic; the races are between steps.     *)
EXTENDS Naturals, FiniteSets

CONSTANTS Fillers, Entries, Evictions, Redeliveries, Takeovers, Off

Rule(name) == name \notin Off

VARIABLES base,     \* entries visible in the base
          log,      \* entries the consumer may see
          at,       \* entries consumed
          row,      \* [state, value, signature, token, pending]
          filler,   \* filler -> [at, token, value, cut]
          tokens, evictions, redeliveries, takeovers
vars == <<base, log, at, row, filler, tokens, evictions, redeliveries, takeovers>>

Absent == [state |-> "absent", value |-> 0, signature |-> 0, token |-> 0, pending |-> {}]
Idle == [at |-> "idle", token |-> 0, value |-> 0, cut |-> 0]

Init ==
  /\ base = 0 /\ log = 0 /\ at = 0
  /\ row = Absent
  /\ filler = [f \in Fillers |-> Idle]
  /\ tokens = 0 /\ evictions = Evictions /\ redeliveries = Redeliveries /\ takeovers = Takeovers

Rest == <<filler, tokens, evictions, redeliveries, takeovers>>

\* R1: a base write is visible before its log entry can be consumed.
Write == /\ base < Entries /\ base' = base + 1 /\ UNCHANGED <<log, at, row>> /\ UNCHANGED Rest
Append == /\ log < Entries /\ (Rule("base before log") => log < base)
          /\ log' = log + 1 /\ UNCHANGED <<base, at, row>> /\ UNCHANGED Rest

\* The consumer: a missing row drops the entry, a filling one keeps it for the filler, a present one absorbs it.
Consume ==
  /\ at < log
  /\ at' = at + 1
  /\ row' = CASE row.state = "absent" -> row
              [] row.state = "filling" -> [row EXCEPT !.pending = @ \union {at + 1}]
              [] row.state = "present" /\ row.signature >= at + 1 -> row
              [] OTHER -> [row EXCEPT !.value = @ + 1, !.signature = at + 1]
  /\ UNCHANGED <<base, log>> /\ UNCHANGED Rest

Redeliver ==
  /\ at > 0 /\ redeliveries > 0
  /\ at' = at - 1 /\ redeliveries' = redeliveries - 1
  /\ UNCHANGED <<base, log, row, filler, tokens, evictions, takeovers>>

\* A reader misses: its placeholder stands before it reads the base.
Place(f) ==
  /\ filler[f].at = "idle"
  /\ tokens < 4 /\ tokens' = tokens + 1
  /\ \/ row.state = "absent" /\ UNCHANGED takeovers
     \/ row.state = "filling" /\ takeovers > 0 /\ takeovers' = takeovers - 1
  /\ row' = IF Rule("placeholder") THEN [Absent EXCEPT !.state = "filling", !.token = tokens + 1] ELSE row
  /\ filler' = [filler EXCEPT ![f] = [Idle EXCEPT !.at = "read", !.token = tokens + 1]]
  /\ UNCHANGED <<base, log, at, evictions, redeliveries>>

\* R3: value and cut are of one moment. Rules off: the cut is read after, or before, the value.
ReadFirst(f) ==
  /\ filler[f].at = "read"
  /\ filler' = [filler EXCEPT ![f] = [@ EXCEPT !.at = IF Rule("cut with value") THEN "install" ELSE "read on",
                                               !.value = base, !.cut = base]]
  /\ UNCHANGED <<base, log, at, row, tokens, evictions, redeliveries, takeovers>>

ReadOn(f) ==
  /\ filler[f].at = "read on"
  /\ filler' = [filler EXCEPT ![f] = IF Rule("cut not after") THEN [@ EXCEPT !.at = "install", !.value = base]
                                     ELSE [@ EXCEPT !.at = "install", !.cut = base]]
  /\ UNCHANGED <<base, log, at, row, tokens, evictions, redeliveries, takeovers>>

Max(ns, n) == IF \E m \in ns : m > n THEN CHOOSE m \in ns : \A o \in ns : o <= m ELSE n

Install(f) ==
  /\ filler[f].at = "install"
  /\ LET my == filler[f]
         later == IF Rule("fold pending") THEN {n \in row.pending : n > my.cut} ELSE {}
         mine == IF Rule("placeholder") THEN row.state = "filling" /\ (Rule("token") => row.token = my.token)
                 ELSE row.state = "absent"
     IN row' = IF mine THEN [state |-> "present", value |-> my.value + Cardinality(later),
                             signature |-> Max(later, my.cut), token |-> my.token, pending |-> {}]
               ELSE row
  /\ filler' = [filler EXCEPT ![f] = Idle]
  /\ UNCHANGED <<base, log, at, tokens, evictions, redeliveries, takeovers>>

\* Eviction for correctness kills a row in any state, a fill in flight too.
Evict ==
  /\ row.state # "absent" /\ evictions > 0
  /\ evictions' = evictions - 1
  /\ row' = Absent
  /\ UNCHANGED <<base, log, at, filler, tokens, redeliveries, takeovers>>

Next == Write \/ Append \/ Consume \/ Redeliver \/ Evict
        \/ \E f \in Fillers : Place(f) \/ ReadFirst(f) \/ ReadOn(f) \/ Install(f)
Spec == Init /\ [][Next]_vars

\* A present row absorbed exactly the entries up to its signature: none lost, none twice.
ExactInv == row.state = "present" => row.value = row.signature

\* Once all is consumed a present row shows the base.
ConvergedInv == (base = Entries /\ log = Entries /\ at = Entries /\ row.state = "present") => row.value = Entries
=============================================================================

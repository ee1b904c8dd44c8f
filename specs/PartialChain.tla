---------------------------- MODULE PartialChain ----------------------------
(* A partial view D filled from another partial view U (paper 003): an entry that U drops has no change for D.     *)
(* Two ways to keep D right: a drop at U evicts D; or U is deleted leaf-first: marked, D evicted, then deleted.     *)
EXTENDS Naturals, FiniteSets

CONSTANTS Variant,   \* "drop evicts" or "leaf first"
          Entries, Evictions, Redeliveries, Off

Rule(name) == name \notin Off

VARIABLES base, at,
          go,        \* entry whose way down to D is still to go (0: none), and what U said of it
          u, d,      \* rows: [state, value, signature, token, pending, mark]
          fill,      \* the filler of D: [at, token, value, cut]
          sweep,     \* the evictors: each [at, mark]
          tokens, evictions, redeliveries
vars == <<base, at, go, u, d, fill, sweep, tokens, evictions, redeliveries>>

Absent == [state |-> "absent", value |-> 0, signature |-> 0, token |-> 0, pending |-> {}, mark |-> 0]
Idle == [at |-> "idle", token |-> 0, value |-> 0, cut |-> 0]
Sweepers == {"e1", "e2"}

Init ==
  /\ base = 0 /\ at = 0 /\ go = <<0, "none">>
  /\ u = Absent /\ d = Absent
  /\ fill = Idle
  /\ sweep = [s \in Sweepers |-> [at |-> "idle", mark |-> 0]]
  /\ tokens = 0 /\ evictions = Evictions /\ redeliveries = Redeliveries

Write == /\ base < Entries /\ base' = base + 1
         /\ UNCHANGED <<at, go, u, d, fill, sweep, tokens, evictions, redeliveries>>

Add(row, e) == [row EXCEPT !.value = @ + 1, !.signature = e]

\* The consumer at U. What it leaves for D: "change", "evict" or nothing.
ConsumeU ==
  /\ go[1] = 0 /\ at < base
  /\ LET e == at + 1
         drop == IF Variant = "drop evicts" /\ Rule("cascade") THEN "evict" ELSE "none"
     IN CASE u.state = "absent" -> u' = u /\ go' = <<e, drop>>
          [] u.signature >= e -> u' = u /\ go' = <<e, IF Rule("always go on") THEN "change" ELSE "none">>
          [] OTHER -> u' = Add(u, e) /\ go' = <<e, "change">>
  /\ UNCHANGED <<base, at, d, fill, sweep, tokens, evictions, redeliveries>>

ConsumeD ==
  /\ go[1] > 0
  /\ LET e == go[1] IN
     d' = CASE go[2] = "evict" -> IF Rule("evict any state") \/ d.state = "present" THEN Absent ELSE d
            [] go[2] = "change" /\ d.state = "filling" -> [d EXCEPT !.pending = @ \union {e}]
            [] go[2] = "change" /\ d.state = "present" /\ d.signature < e -> Add(d, e)
            [] OTHER -> d
  /\ at' = go[1]
  /\ go' = <<0, "none">>
  /\ UNCHANGED <<base, u, fill, sweep, tokens, evictions, redeliveries>>

\* The consumer dies between U and D; the entry is delivered again.
Crash ==
  /\ go[1] > 0 /\ redeliveries > 0
  /\ go' = <<0, "none">>
  /\ redeliveries' = redeliveries - 1
  /\ UNCHANGED <<base, at, u, d, fill, sweep, tokens, evictions>>

\* U is filled from the base: its fill is the leaf protocol's and taken as one step here, at an exact cut.
FillU ==
  /\ u.state = "absent" /\ tokens < 3
  /\ go[1] = 0 /\ base = at
  /\ u' = [Absent EXCEPT !.state = "present", !.value = base, !.signature = base, !.token = tokens + 1]
  /\ tokens' = tokens + 1
  /\ UNCHANGED <<base, at, go, d, fill, sweep, evictions, redeliveries>>

PlaceD ==
  /\ d.state = "absent" /\ fill.at = "idle" /\ tokens < 3
  /\ d' = [Absent EXCEPT !.state = "filling", !.token = tokens + 1]
  /\ fill' = [Idle EXCEPT !.at = "read", !.token = tokens + 1]
  /\ tokens' = tokens + 1
  /\ UNCHANGED <<base, at, go, u, sweep, evictions, redeliveries>>

\* D's filler reads U's row; a row marked for eviction serves nobody.
ReadU ==
  /\ fill.at = "read"
  /\ u.state = "present" \/ (u.state = "evicting" /\ ~Rule("serve present only"))
  /\ fill' = [fill EXCEPT !.at = "install", !.value = u.value, !.cut = u.signature]
  /\ UNCHANGED <<base, at, go, u, d, sweep, tokens, evictions, redeliveries>>

Max(ns, n) == IF \E m \in ns : m > n THEN CHOOSE m \in ns : \A o \in ns : o <= m ELSE n
InstallD ==
  /\ fill.at = "install"
  /\ LET later == {n \in d.pending : n > fill.cut} IN
     d' = IF d.state = "filling" /\ d.token = fill.token
          THEN [Absent EXCEPT !.state = "present", !.value = fill.value + Cardinality(later),
                              !.signature = Max(later, fill.cut), !.token = fill.token]
          ELSE d
  /\ fill' = Idle
  /\ UNCHANGED <<base, at, go, u, sweep, tokens, evictions, redeliveries>>

(* ---- evicting U ---- *)
DropU ==
  /\ Variant = "drop evicts"
  /\ u.state = "present" /\ evictions > 0
  /\ evictions' = evictions - 1
  /\ u' = Absent
  /\ UNCHANGED <<base, at, go, d, fill, sweep, tokens, redeliveries>>

Mark(s) ==
  /\ Variant = "leaf first"
  /\ sweep[s].at = "idle" /\ u.state = "present" /\ evictions > 0
  /\ evictions' = evictions - 1
  /\ u' = [u EXCEPT !.state = "evicting", !.mark = evictions]
  /\ sweep' = [sweep EXCEPT ![s] = [at |-> "marked", mark |-> evictions]]
  /\ UNCHANGED <<base, at, go, d, fill, tokens, redeliveries>>

EvictD(s) ==
  /\ sweep[s].at = "marked"
  /\ d' = IF Rule("evict any state") \/ d.state = "present" THEN Absent ELSE d
  /\ sweep' = [sweep EXCEPT ![s].at = "delete"]
  /\ UNCHANGED <<base, at, go, u, fill, tokens, evictions, redeliveries>>

DeleteU(s) ==
  /\ sweep[s].at = "delete"
  /\ u' = IF u.state = "evicting" /\ (Rule("eviction id") => u.mark = sweep[s].mark) THEN Absent ELSE u
  /\ sweep' = [sweep EXCEPT ![s] = [at |-> "idle", mark |-> 0]]
  /\ UNCHANGED <<base, at, go, d, fill, tokens, evictions, redeliveries>>

\* A reader takes the mark back, because its evictor seems dead.
Rescind ==
  /\ u.state = "evicting"
  /\ u' = [u EXCEPT !.state = "present", !.mark = 0]
  /\ UNCHANGED <<base, at, go, d, fill, sweep, tokens, evictions, redeliveries>>

Next == Write \/ ConsumeU \/ ConsumeD \/ Crash \/ FillU \/ PlaceD \/ ReadU \/ InstallD \/ DropU \/ Rescind
        \/ \E s \in Sweepers : Mark(s) \/ EvictD(s) \/ DeleteU(s)
Spec == Init /\ [][Next]_vars

\* D absorbed exactly the entries up to its signature, and once all is consumed it shows the base.
ExactInv == d.state = "present" => d.value = d.signature
ConvergedInv == (at = Entries /\ go[1] = 0 /\ d.state = "present") => d.value = Entries
=============================================================================

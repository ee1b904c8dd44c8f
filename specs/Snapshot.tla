------------------------------ MODULE Snapshot ------------------------------
(* Snapshot reads and wait tokens. Epochs here are only what a reader sees of them: rows written one by one *)
(* with their image before, commits, dead rows collected by later epochs. A reader reads the committed      *)
(* epoch, each row, and the committed epoch again; it may be slow between any two.                          *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Epochs, Off

Rule(name) == name \notin Off
Keys == {"a", "b"}

\* The view of each epoch: something alternates between the two view records, then both change; 0 is dead.
Value(e, k) == CASE k = "a" -> IF e % 3 = 1 THEN e ELSE 0
                 [] k = "b" -> IF e % 3 = 1 THEN 0 ELSE e

VARIABLES committed,
          wrote,     \* keys of epoch committed + 1 already written
          rows,      \* key -> [now, epoch, before, there]
          reader,    \* [at, c, got]
          answers,   \* the last whole answer given: [c, rows], and what was committed when it was asked and given
          token      \* highest write acknowledged to the client before it asked (0: it did not wait)
vars == <<committed, wrote, rows, reader, answers, token>>

None == [c |-> 0, rows |-> [k \in Keys |-> Value(0, k)], asked |-> 0]
Init ==
  /\ committed = 0
  /\ wrote = {}
  /\ rows = [k \in Keys |-> [now |-> Value(0, k), epoch |-> 0, before |-> Value(0, k), there |-> TRUE]]
  /\ reader = [at |-> "idle", c |-> 0, asked |-> 0, got |-> <<>>]
  /\ answers = None
  /\ token = 0

\* A driver writes one row of the next epoch; with it goes what is dead at an epoch already committed.
WriteRow(k) ==
  /\ committed < Epochs /\ k \notin wrote
  /\ wrote' = wrote \union {k}
  /\ rows' = [rows EXCEPT ![k] = [now |-> Value(committed + 1, k), epoch |-> committed + 1, before |-> @.now,
                                  there |-> TRUE]]
  /\ UNCHANGED <<committed, reader, answers, token>>

Commit ==
  /\ wrote = Keys
  /\ committed' = committed + 1
  /\ wrote' = {}
  /\ UNCHANGED <<rows, reader, answers, token>>

\* Collection: a row that is dead, and was so at a committed epoch, goes away at a later epoch.
Collect(k) ==
  /\ rows[k].there /\ rows[k].now = 0 /\ rows[k].epoch <= committed /\ committed > 0
  /\ rows' = [rows EXCEPT ![k] = [now |-> 0, epoch |-> 0, before |-> 0, there |-> FALSE]]
  /\ UNCHANGED <<committed, wrote, reader, answers, token>>

\* A client's write is acknowledged; its token is the write's number. It is in the epoch of that number.
Acknowledge ==
  /\ reader.at = "idle" /\ token < Epochs
  /\ token' = token + 1
  /\ UNCHANGED <<committed, wrote, rows, reader, answers>>

Ask ==
  /\ reader.at = "idle"
  /\ Rule("wait") => committed >= token
  /\ reader' = [at |-> "a", c |-> committed, asked |-> token, got |-> [k \in Keys |-> 0]]
  /\ UNCHANGED <<committed, wrote, rows, answers, token>>

ReadRow ==
  /\ reader.at \in Keys
  /\ LET k == reader.at
         row == rows[k]
         seen == CASE row.epoch <= reader.c -> row.now
                   [] row.epoch = reader.c + 1 -> IF Rule("before") THEN row.before ELSE row.now
                   [] OTHER -> IF Rule("retry") THEN 0 ELSE row.before
     IN IF row.epoch > reader.c + 1 /\ Rule("retry")
        THEN reader' = [at |-> "idle", c |-> 0, asked |-> 0, got |-> <<>>]
        ELSE reader' = [reader EXCEPT !.at = IF @ = "b" THEN "check" ELSE "b", !.got[k] = seen]
  /\ UNCHANGED <<committed, wrote, rows, answers, token>>

Check ==
  /\ reader.at = "check"
  /\ reader' = [at |-> "idle", c |-> 0, asked |-> 0, got |-> <<>>]
  /\ answers' = IF Rule("read again") => committed = reader.c
                THEN [c |-> reader.c, rows |-> reader.got, asked |-> reader.asked] ELSE answers
  /\ UNCHANGED <<committed, wrote, rows, token>>

Next == Commit \/ Ask \/ ReadRow \/ Check \/ Acknowledge \/ \E k \in Keys : WriteRow(k) \/ Collect(k)
Spec == Init /\ [][Next]_vars

\* An answer is the whole view at one committed epoch.
SnapshotInv == answers.rows = [k \in Keys |-> Value(answers.c, k)]

\* Answers one after another never step back.
ForwardProp == [][answers'.c >= answers.c]_answers

\* A reader that brings a token sees the write it stands for.
TokenInv == answers.c >= answers.asked
=============================================================================

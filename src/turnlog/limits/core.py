"""Bounds of what is accepted, kept and read, each with its reason."""

from __future__ import annotations

from typing import Final

# --- what is accepted -------------------------------------------------------------------------------------------

THREAD_ID_BYTES_MAX: Final = 1_024
"""UTF-8 bytes of a thread id: room for any application's composed id, small enough for an index key."""

TURN_ID_BYTES_MAX: Final = 256
"""UTF-8 bytes of a turn id and of a submission's key: browser ids, UUIDs and hashes fit many times over."""

NAME_BYTES_MAX: Final = 1_024
"""Bytes, as JSON, of a step, call, item or agent id: what settles a turn repeats it and must still fit a body."""

BODY_BYTES_MAX: Final = 64 * 1_024
"""Bytes of one event's body kept inline. Above it a row no longer fits a few database pages, and listing a turn would
read what nobody looks at. Larger bodies are refused `too_large` until blobs exist."""

SUBMISSION_BYTES_MAX: Final = BODY_BYTES_MAX - 3 * 1_024
"""Bytes of a submission's body: it must still fit when a retry adds the id of the retried turn and an agent's name."""

JSON_DEPTH_MAX: Final = 100
"""Nested arrays and objects in a body. Real model items stay below 20; recursive readers in other languages often give
up at 128 or 1,000, so what we accept everybody can read."""

DRAFT_BYTES_MAX: Final = BODY_BYTES_MAX - 4 * 1_024
"""Encoded bytes of one draft: it must fit the item that closes it, with that item's own fields."""

DRAFTS_OPEN_MAX: Final = 500
"""Drafts of a turn that no event has closed: what settling must close in one write (at most 30 MiB)."""

DRAFT_PART_MAX: Final = 1_000_000
"""The highest part of a draft's target: far more parts than a target may have drafts, and a number of few digits."""

FILE_BYTES_MAX: Final = 2**63 - 1
"""Bytes of a file that comes with a message, as it is described: what programs that read it can count to."""

TIME_US_MAX: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999: what RFC 3339 can say. A time beyond it was given in another unit."""

EVENTS_PER_TURN_MAX: Final = 1_000_000
"""Events of one turn: 20 times the largest turn promised to work, and less than the engine's 2^20 places a turn."""

EVENTS_LATE_MAX: Final = 100
"""Late events kept for one turn: its row names each of them. An agent that goes on for longer has a defect."""

REQUESTS_PER_TURN_MAX: Final = 1_000
"""Requests (interrupts, decisions) written to one turn: all of them are read to let the first decision win."""

CALLS_NAMED_MAX: Final = 200
"""Calls with unknown outcome that a terminal event names; the timeline shows all of them."""

DETAIL_BYTES_MAX: Final = 8 * 1_024
"""Bytes, as JSON, of the detail of an interrupted turn: a message and a stack's end, and settling always fits."""

# --- the writer -------------------------------------------------------------------------------------------------

QUEUE_JOBS_MAX: Final = 20_000
"""Writes waiting for the writer: some tenths of a second of work at full speed; beyond it the disk does not keep up
and callers must be told instead of served from a growing queue."""

QUEUE_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""Bytes of those writes, so that a few hundred large items cannot hold memory without bound either."""

QUEUE_TURNS_MAX: Final = 20
"""Open turns of one thread, the running one among them: more than a person types while waiting, and few enough that
whoever looks for a turn's place, replaces them all or settles them after a crash reads them at once. One that replaces
the others may be one more."""

BATCH_JOBS_MAX: Final = 1_024
"""Writes in one group commit: the measured throughput is flat above 256, and latency grows with the batch."""

BATCH_JOBS_QUICK_MAX: Final = 64
"""The same on a quick disk. Working a batch out holds up the other threads of the process, its event loop above all:
with 1,024, a loop of 256 saturated submitters was three times as late, at the same throughput."""

COMMIT_SLOW_S: Final = 0.005
"""Seconds a commit takes on a disk that is not quick: there the sync costs more than working a batch out, and whatever
waits shares it. It is also the time for which one thread of CPython may keep the others waiting."""

JOINED_EVENTS_MAX: Final = 256
"""Events of one turn that go in one write when they wait together: a sync for all of them costs little more than for
one, and one that fails is answered to no more than these."""

JOINED_BYTES_MAX: Final = 1 * 1_024 * 1_024
"""Bytes of such a write, so that other turns of its batch do not wait for a long one."""

RESEAL_WAIT_S: Final = 10.0
"""Seconds to try to append where other processes keep appending first: as long as for their lock. Each loss means that
another one advanced."""

RESEAL_TRIES_MAX: Final = 10_000
"""Attempts in that time: more than a disk takes, so that it ends where the clock stands still."""

STILL_TRIES_MAX: Final = 20
"""Looks of an audit at a thread that moves while it is looked at."""

DRAFT_DELAY_S: Final = 0.05
"""Seconds a chunk of a draft may wait for more: below what a reader notices, and 20 syncs a second at most."""

DRAFT_CHUNK_BYTES: Final = 4 * 1_024
"""Bytes of waiting draft text that are written without waiting longer: one database page."""

DRAFT_PENDING_BYTES_MAX: Final = 1 * 1_024 * 1_024
"""Bytes of draft text a turn may have waiting for a stalled disk before `Overloaded`: minutes of a fast model."""

WRITER_QUIET_S: Final = 0.001
"""Seconds without work after which the writer looks after the store: who was just answered often writes again within
less, and would have to wait for it. A log that is never quiet is checkpointed by size."""

RESUMED_AT_ONCE_MAX: Final = 64
"""Waiting tasks that one turn of an event loop resumes: about a millisecond of them, so that timers keep their time."""

THREADS_CACHED_MAX: Final = 4_096
"""Threads whose head the writer remembers; beyond it the least recently used without an open turn is read again."""

WRITER_POLL_S: Final = 0.05
"""Seconds between looks at what other processes wrote, only while somebody follows or owns an open turn."""

STORE_PROBE_S: Final = 1.0
"""Seconds between attempts to settle what could not be settled because the store refused to write."""

CLOSE_WAIT_S: Final = 30.0
"""Seconds that closing a log waits for its writer: longer than any wait of an engine, so it only ends by a defect."""

# --- liveness ---------------------------------------------------------------------------------------------------

LEASE_S: Final = 30.0
"""Seconds a writer may be silent before others may take its open turns: longer than a disk stall or a long garbage
collection, short enough that a person still waits."""

LEASE_RENEW_S: Final = LEASE_S / 3
"""Seconds between renewals: two may be missed."""

RECOVER_TURNS_MAX: Final = 256
"""Turns settled in one round of recovery, so that memory stays bounded; rounds follow until none is left."""

RECOVERY_TRIES_MAX: Final = 5
"""Recoveries of a turn that may be begun and not come to their end, by the death of their process: fewer could be
chance, and each costs a start of the application. After them the turn is ended without being read."""

DEAD_OWNERS_MAX: Final = 256
"""Dead writers looked at in one round of recovery."""

# --- engines ----------------------------------------------------------------------------------------------------

STORE_BUSY_WAIT_S: Final = 10.0
"""Seconds to wait for another process's write lock before `StoreBusy`."""

GATE_WAIT_S: Final = 1.0
"""Seconds of these to wait for one's turn among the processes that write: longer than eight slow commits, short enough
that one that stands still where it keeps the others out costs them little."""

WAL_PAGES_CHECKPOINT: Final = 1_000
"""Pages in the write-ahead log at which an idle writer checkpoints; at four times as many it does so when busy, so
that opening after a kill stays at some milliseconds."""

WAL_PREGROWN_BYTES: Final = 8 * 1_024 * 1_024
"""Bytes the write-ahead log is grown by at its first use: overwriting costs half of appending on a journaled disk."""

READERS_MAX: Final = 8
"""Reader connections kept open in one process: more threads than that take turns."""

# --- reading ----------------------------------------------------------------------------------------------------

PAGE_ROWS: Final = 50
"""Rows of a list when the caller names no limit."""

PAGE_ROWS_MAX: Final = 1_000
"""Rows of a list at the most: a page is one answer in memory, and `next` goes on from it."""

PAGE_BYTES_MAX: Final = 768 * 1_024
"""Bytes of JSON of a page of entries, messages or events, unless one alone is larger: what a phone takes in a second,
and below 1 MB with all that stands around it."""

READ_EVENTS_MAX: Final = 1_000
"""Events read from an engine at once; longer reads go on from there."""

READ_BYTES_MAX: Final = 4 * 1_024 * 1_024
"""Bytes of bodies read from an engine at once, whatever the number of events."""

READS_TOGETHER_MAX: Final = 64
"""Reads of followers that are answered together: each takes some 50 µs, the first does not wait for hundreds."""

VIEW_TEXT_BYTES_MAX: Final = 64 * 1_024
"""UTF-8 bytes of one argument or output a view shows; the entry says what was cut, the whole is read on demand."""

SNAPSHOTS_KEPT: Final = 20
"""Newest settled turns of a thread whose timelines are kept as snapshots: what a person opens again. All others are
folded again when somebody does."""

SNAPSHOT_EVENTS_MIN: Final = 6
"""Events of a turn that is worth a snapshot: with fewer, nothing was called, and folding them again is one read as
well. Threads of plain questions and answers would take half as much disk again."""

SNAPSHOT_PAGE_ENTRIES_MAX: Final = 200
"""Entries in one page of a snapshot: as many as a page of a trace shows, unpacked in a millisecond."""

SNAPSHOT_PAGE_BYTES: Final = 256 * 1_024
"""Bytes of JSON of those entries, unless one alone is larger, before they are compressed."""

SNAPSHOT_BODY_BYTES_MAX: Final = 4 * 1_024 * 1_024
"""Bytes that a page of a snapshot may unpack to: its limit, and one entry with three texts that are all escapes. What
claims more is damaged."""

SNAPSHOT_WRITE_BYTES: Final = 256 * 1_024
"""Bytes of a snapshot that are written at once: a group commit that comes meanwhile waits a millisecond for them."""

SAID_EVENTS_MAX: Final = 500
"""Events with messages and notices of a turn that its snapshot names: each is read on its own, all of them in
some 20 milliseconds. Turns that say more are folded again when they are shown."""

SNAPSHOTS_WAITING_MAX: Final = 1_000
"""Settled turns that wait for their snapshot: seconds of work. More of them are folded again when they are opened."""

SNAPSHOT_PIECE_S: Final = 0.001
"""Seconds of folding for a snapshot before others are let go on: a fifth of the time for which one thread of CPython
may keep the others waiting."""

SNAPSHOT_PAUSE_S: Final = 0.002
"""Seconds of each of these rests while nobody writes: making snapshots takes at most a third of a core."""

SNAPSHOT_PAUSE_BUSY_S: Final = 0.05
"""The same while the writer is at work: a fiftieth, so that who writes meanwhile hardly notices. The longest turn then
takes some minutes, or until the writer rests."""

TITLE_CHARS_MAX: Final = 80
"""Characters of a thread's title taken from its first message: one line of a list."""

PREVIEW_CHARS_MAX: Final = 200
"""Characters of a turn's message in lists: enough to know it again, and a row stays small."""

CHANGES_PENDING_MAX: Final = 1_000
"""Threads noted as changed for one reader of `changes` that does not come to take them: about a page of the list it
would read anyway, which it is told to do instead."""

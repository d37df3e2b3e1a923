"""Every bound of turnlog, each with its reason. Units come last in a name."""

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

RESEAL_TRIES_MAX: Final = 20
"""Attempts to append where another process keeps appending first. Each loss means that the other one advanced."""

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

DEAD_OWNERS_MAX: Final = 256
"""Dead writers looked at in one round of recovery."""

# --- engines ----------------------------------------------------------------------------------------------------

STORE_BUSY_WAIT_S: Final = 10.0
"""Seconds to wait for another process's write lock before `StoreBusy`."""

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

TITLE_CHARS_MAX: Final = 80
"""Characters of a thread's title taken from its first message: one line of a list."""

PREVIEW_CHARS_MAX: Final = 200
"""Characters of a turn's message in lists: enough to know it again, and a row stays small."""

CHANGES_PENDING_MAX: Final = 1_000
"""Threads noted as changed for one reader of `changes` that does not come to take them: about a page of the list it
would read anyway, which it is told to do instead."""

# --- the runner -------------------------------------------------------------------------------------------------

AGENT_IDLE_S: Final = 300.0
"""Seconds without any signal after which an agent is taken for stuck: reasoning models are silent for minutes."""

AGENT_HARD_S: Final = 3_600.0
"""Seconds a turn may last in all: an agent that goes in circles is never silent, so the idle limit misses it."""

AGENT_STOP_S: Final = 5.0
"""Seconds a cancelled agent may clean up before its turn is settled without it."""

# --- streams ----------------------------------------------------------------------------------------------------

STREAM_PING_S: Final = 10.0
"""Seconds a stream may be silent before it is pinged: proxies cut connections that are silent for 30 or 60 seconds, and
a reader takes a stream without pings for dead after 25."""

STREAM_STALL_S: Final = 30.0
"""Seconds for which a full connection may take nothing before it is cut off: longer than a phone is out of reach in a
lift, short enough that those who went away without a word do not pile up. The client comes back with its cursor."""

STREAM_BYE_S: Final = 0.5
"""Seconds that a stopping server waits for streams to take their `bye`: all who read at all need a hundredth of it."""

STREAM_RETRY_MS: Final = 1_000
"""Milliseconds after which a reader is told to come back: a restart takes about as long."""

STREAM_PIECE_BYTES: Final = 64 * 1_024
"""Bytes of frames sent to a client at once: what a slow one makes the server hold, beside the connection's own buffer
of the same size."""

CHANGES_PAUSE_S: Final = 0.25
"""Seconds between two looks at which threads have changed, for the streams of changes: a list need not be quicker."""

CHANGES_KEPT_MAX: Final = 1_000
"""Rows of changed threads kept for those streams: who is slower than that many changes reads the list again."""

FEED_PIECES_MAX: Final = 128
"""Pieces of a thread's stream kept for its watchers: some seconds of a quick answer. Who is slower reads the log."""

FEED_BYTES_MAX: Final = 64 * 1_024
"""Bytes of those pieces: a thousand watched threads hold 64 MiB at the most."""

# --- the server -------------------------------------------------------------------------------------------------

CONNECTIONS_MAX: Final = 4_096
"""Open connections of a server: four times the streams it is measured with; more are told to come back (503)."""

WRITE_BUFFER_BYTES: Final = 64 * 1_024
"""Bytes that wait for one slow client, beside what its stream is about to send: a thousand of them hold 64 MiB."""

CONNECTION_KERNEL_BYTES: Final = 16 * 1_024
"""Unsent bytes the kernel keeps of one connection, where it can be told: else it takes up to some MiB, and a client
that reads nothing is found out late."""

CONNECTION_DEAD_MS: Final = 30_000
"""Milliseconds after which the kernel gives up a client that acknowledges nothing, where it can be told so: as long as
a stream may stall."""

HEAD_BYTES_MAX: Final = 64 * 1_024
"""Bytes of a request's line and headers: ids in paths are at most some KiB, cookies of other servers on this host
more."""

HEAD_S: Final = 10.0
"""Seconds that a request's head may take, or a new connection be silent: browsers open some ahead, and open others."""

KEEP_ALIVE_S: Final = 15
"""Seconds a connection waits for its next request: a person reads for longer, and a new one costs a millisecond."""

REQUEST_BYTES_MAX: Final = 256 * 1_024
"""Bytes of a request's body: four times what an event keeps, as a form or JSON may write one byte as three or more."""

REQUEST_DISCARDED_BYTES_MAX: Final = 4 * 1_024 * 1_024
"""Bytes of a larger body that are read and thrown away, so that who sent it can still read why it was refused."""

REQUEST_S: Final = 20.0
"""Seconds a body may take to arrive: 256 KiB at 13 kB a second, a poor phone connection."""

FOLDS_AT_ONCE_MAX: Final = 2
"""Reads that fold turns at once: one may take seconds of a core, and holds the event loop up for 5 ms at each step."""

PROMPT_READS_MAX: Final = 4
"""Threads for looks at one row, and as many for the server's health: slow reads may hold all others for long."""

TURNS_AT_ONCE_MAX: Final = 1_000
"""Open turns that one server works on: five times what it is measured with. Each holds a task and its history."""

FILES_BESIDE: Final = 256
"""File descriptors of a server that are no connections: the store's, the agents' and their tools'."""

STOP_TURNS_S: Final = 2 * AGENT_STOP_S
"""Seconds of each step of settling turns as a server stops: half of it an agent may clean up, a disk takes less."""

STOP_LEAVING_S: Final = 1.0
"""Seconds for tasks and threads to end that were told to as the server leaves: those that listen need a hundredth."""

STOP_ANSWERS_S: Final = 5
"""Seconds that a stopping server waits for answers on their way: streams have ended by then, and a write takes longer
only on a disk that has stopped."""

# --- the page ---------------------------------------------------------------------------------------------------

PAGE_TURNS: Final = 30
"""Turns on a page of a thread, and so of what a live page follows: more than anybody reads back in one go."""

PAGE_LOOSE: Final = 200
"""Messages without a turn, and notices between turns, on one page: the page says when there are more."""

TRACE_ROWS_SHOWN: Final = 200
"""Rows of a trace on one page: a running turn shows its newest, the turn's own page leads to all others."""

TRACE_DEPTH_SHOWN: Final = 8
"""Levels to which a page nests the rows of a trace; deeper ones stand beside their parent, on a phone's width."""

ROW_TEXT_CHARS: Final = 3_000
"""Characters of one text of a trace's row, at most 18 KB when all are escapes: the raw item is a link away."""

TRACE_ROWS_LEAVE: Final = 50
"""Rows of a running turn that leave its page together: each time those that stay are named again."""

LABEL_CHARS_MAX: Final = 120
"""Characters of a name, target or other text that a page shows on one line: more than a wide screen has room for."""

NOTICES_SHOWN: Final = 20
"""Notices about records of one turn: a damaged store may have thousands, and its page must still open."""

FILES_SHOWN: Final = 50
"""Attachments of a message that a page names: a leaf holds them all, and must fit a frame."""

CALLS_SHOWN: Final = 10
"""Calls of unknown outcome that a notice names: what a person can check. The trace has all."""

FORM_FIELDS_MAX: Final = 8
"""Fields of a form: more than any form of a page has."""

MESSAGE_BLOCKS_MAX: Final = 1_500
"""Elements that one message is laid out in; a longer one is shown as plain text, which needs few."""

NAMES_BYTES_MAX: Final = 48 * 1_024
"""Bytes, as JSON, of the names of one element's children in a message: an operation that puts them in order names
each, and must fit a frame."""

MESSAGE_LINES_MAX: Final = 2_000
"""Lines of a message that is laid out: to find out what more of them are would take longer than a frame may."""

MESSAGE_TOKENS_MAX: Final = 30_000
"""What those lines may be read as, in pieces of which a table's cell is three: 0.2 s of reading at the most."""

MESSAGE_HTML_TIMES: Final = 10
"""How many times its text a message's HTML may be, beside what is free: coloured code becomes six times as long. Links
that are written once and named often become thousands of times their text."""

MESSAGE_HTML_CHARS: Final = 64 * 1_024
"""Characters of a message's HTML that are free: a list of short words is mostly tags, and small."""

LEAF_TEXT_CHARS: Final = 6_000
"""Characters of a paragraph, heading or table row that is laid out: to look for pairs of brackets takes the longer, the
more there are, with their square."""

LEAF_BYTES_MAX: Final = 56 * 1_024
"""Bytes, as JSON, of the HTML of a leaf, which is sent whole: with the ids beside it, it must fit a frame."""

PIECE_CHARS: Final = 2_000
"""Characters of one leaf of plain text: at most 12 KB when every character is written as an escape, and of a text that
grows little is sent again."""

CODE_LINES_LEAF: Final = 12
"""Lines of code in one leaf: of a listing that grows only the last leaf is sent again."""

CODE_COLOURED_CHARS: Final = 3_500
"""Characters of a message's code that are coloured: code made to be slow takes 0.1 s for 2,000, and with their square
for more. The rest has one colour."""

DOM_ID_CHARS_MAX: Final = 40
"""Characters of a name in an element's id: an operation repeats up to three. A longer name is told by its digest."""

FRAMES_PER_S: Final = 10
"""Frames a second that a live page sends while text grows: what an eye follows, at a third of the bytes of 30."""

FRAME_BYTES_MAX: Final = 64 * 1_024
"""Bytes of one frame of a live page: a slow client gets the next one soon, and no buffer holds more."""

PAGES_CPU_SHARE: Final = 0.5
"""Share of one core that all live pages together render with; above it they come less often than `FRAMES_PER_S`."""

# --- Codex ------------------------------------------------------------------------------------------------------

CODEX_LINE_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""Bytes of one line from Codex: a message of 5 MB came as one line of 5 MB; more than ten times that is a defect."""

CODEX_INBOX_BYTES: Final = 8 * 1_024 * 1_024
"""Bytes of messages from Codex that wait for a slow disk before its pipe is left full: Codex then waits, too."""

CODEX_START_S: Final = 20.0
"""Seconds for Codex to start and shake hands: 0.1 s warm; a cold disk has 400 MB of it to read."""

CODEX_REQUEST_S: Final = 60.0
"""Seconds for Codex to answer a request: 50 MB of history took it 2.3 s, and a line it cannot read it never answers."""

CODEX_STOP_S: Final = 2.0
"""Seconds for Codex to end a turn, and again to end itself: 0.1 s when well; both fit into a cancelled agent's time."""

CODEX_PROCESSES_MAX: Final = 16
"""Codex processes alive at once: 110 MB resident each, 20 MB of it their own. More turns than that wait for one."""

CODEX_IDLE_S: Final = 600.0
"""Seconds for which a process without a turn is kept: a person reads an answer and asks on, and the process still has
the thread in memory and the commands that were left running."""

CODEX_STEP_TEXT_BYTES: Final = 16 * 1_024
"""Bytes, as JSON, of a text in a step about Codex's work: what a person reads in a trace, and three of them fit a body.
The raw items beside them hold what the model was told."""

CODEX_OUTPUT_DRAFT_BYTES: Final = 32 * 1_024
"""Bytes of a command's output shown while it runs: more than anybody reads along, and half of what a draft may hold."""

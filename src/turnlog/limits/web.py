"""Bounds of streams, the server and its pages, each with its reason."""

from __future__ import annotations

from typing import Final

from turnlog.limits.agents import AGENT_STOP_S

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

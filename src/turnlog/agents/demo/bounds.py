"""Every bound of the demo agent, each with its reason: it may be pointed at a home folder or a file server."""

from __future__ import annotations

from typing import Final

ENTRIES_MAX: Final = 20_000
"""Names of files and folders looked at for one question: a large source tree; beyond it a newcomer would wait for
minutes."""

DEPTH_MAX: Final = 16
"""Folders inside folders: deeper trees are generated, and each level is one open folder on the way to a file."""

FILE_BYTES_MAX: Final = 1 * 1_024 * 1_024
"""Bytes read of one file: longer than any text written by hand."""

TOTAL_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""Bytes read for one question: some seconds of searching."""

BINARY_PROBE_BYTES: Final = 8 * 1_024
"""Bytes looked at to tell text from binary: formats show a NUL byte in their header."""

SUBAGENTS_MAX: Final = 12
"""Sub-agents of one question, one a subfolder: what still fits a screen. The last one takes all remaining folders."""

HITS_PER_FILE_MAX: Final = 40
"""Matching lines kept of one file, the best first: one file must not crowd out the others."""

TERMS_MAX: Final = 12
"""Words looked for at once: more do not make a question clearer, only every line match."""

QUESTION_CHARS_MAX: Final = 2_000
"""Characters of a question that are read for words: what follows is usually pasted material."""

FAILURES_SHOWN_MAX: Final = 5
"""Unreadable files shown each as its own failed step; the others are counted."""

QUOTES_MAX: Final = 3
"""Passages quoted with the lines around them."""

QUOTE_LINES_MAX: Final = 9
"""Lines of one quoted passage."""

MENTIONS_MAX: Final = 8
"""Further places named with one line each."""

LIST_LINES_MAX: Final = 60
"""Lines of a list of files: two screens."""

OUTLINE_LINES_MAX: Final = 16
"""Headings or definitions named of one file."""

LINE_CHARS_MAX: Final = 200
"""Characters of one quoted line: minified files have lines of a megabyte."""

OUTPUT_CHARS_MAX: Final = 4_000
"""Characters of what a tool answers: at up to four bytes each, well below the limit of an event's body."""

ANSWER_CHARS_MAX: Final = 10_000
"""Characters of an answer: at up to four bytes each it fits one draft and one item."""

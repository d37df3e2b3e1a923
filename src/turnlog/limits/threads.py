"""Bounds of what happens to a thread as a whole, each with its reason."""

from __future__ import annotations

from typing import Final

TITLE_GIVEN_CHARS_MAX: Final = 200
"""Characters of a title that somebody gives a thread: more than a list shows of one, and a thread's row stays small."""

TRUNCATIONS_MAX: Final = 1_000
"""Truncations of a thread that hold at once: whether a turn is hidden is found by going from one to the one before, a
read of some 20 µs each, so that the oldest page of a list still comes in 20 ms."""

HIDDEN_NAMED_MAX: Final = 1_000
"""Turns that the receipt of a truncation names, the newest of those it has hidden: a page of a list."""

FORK_PAGE_EVENTS: Final = 500
"""Events that a fork copies in one commit: with their rows some milliseconds, for which others wait at the most."""

FORK_PAGE_BYTES: Final = 512 * 1_024
"""Bytes of bodies in such a commit, unless one event alone is larger: what a disk takes in some milliseconds."""

"""What the audit finds after each damage, and what it finds after the repair.

A finding is written `kind thread/turn place`, with a star when it can be repaired. The infos that the store has without
any damage are left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Expected(NamedTuple):
    """What is found before and after the repair."""

    found: tuple[str, ...]
    left: tuple[str, ...] = ()


EXPECTED: Final[dict[str, Expected]] = {
    "a byte of a body": Expected(
        ("malformed t/a event 9 *", "snapshot_differs t/a snapshot"), ("snapshot_differs t/a snapshot",)
    ),
    "a byte of a submission": Expected(("malformed t/z event 34 *",)),
    "another word in a submission": Expected(("digest_differs t/z event 34 *",)),
    "another word in an answer": Expected(("snapshot_differs t/a snapshot",), ("snapshot_differs t/a snapshot",)),
    "a kind from the future": Expected(
        ("unknown_kind t/a event 6", "snapshot_differs t/a snapshot"),
        ("unknown_kind t/a event 6", "snapshot_differs t/a snapshot"),
    ),
    "a version from the future": Expected(
        ("unknown_kind t/a event 5", "snapshot_differs t/a snapshot"),
        ("unknown_kind t/a event 5", "snapshot_differs t/a snapshot"),
    ),
    "the kind of another event": Expected(
        ("malformed t/a event 4 *", "snapshot_differs t/a snapshot"), ("snapshot_differs t/a snapshot",)
    ),
    "the end of a turn of an unknown kind": Expected(("unknown_kind t/z event 38",), ("unknown_kind t/z event 38",)),
    "the first event is gone": Expected(("seq_gap t event 1 *",)),
    "an event in the middle is gone": Expected(
        ("seq_gap t event 7 *", "turn_row_differs t/a turn row *", "snapshot_differs t/a snapshot"),
        ("snapshot_differs t/a snapshot",),
    ),
    "a submission is gone": Expected(("seq_gap t event 34 *", "illegal_transition t/z event 35 *")),
    "the end of an earlier turn is gone": Expected(
        ("seq_gap t event 10 *", "unnoticed_end t/a turn row *", "snapshot_differs t/a snapshot")
    ),
    "the last event is gone": Expected(("seq_gap t event 38 *", "unnoticed_end t/z turn row *")),
    "the last events are gone": Expected(("seq_gap t events 35 to 38 *", "unnoticed_end t/z turn row *")),
    "a truncation is gone": Expected(("seq_gap t event 16 *",)),
    "two events at one place": Expected(
        ("seq_duplicate t/a event 9", "snapshot_differs t/a snapshot *"), ("seq_duplicate t/a event 9",)
    ),
    "a second end, another one": Expected(
        (
            "terminal_collision t/a events 10 and 39 *",
            "turn_row_differs t/a turn row *",
            "snapshot_differs t/a snapshot *",
        )
    ),
    "a second end, the same": Expected(
        (
            "terminal_collision t/a events 10 and 39 *",
            "turn_row_differs t/a turn row *",
            "snapshot_differs t/a snapshot *",
        )
    ),
    "an event after the end": Expected(("illegal_transition t/d event 39 *", "turn_row_differs t/d turn row *")),
    "an item before the start": Expected(
        ("illegal_transition t/z event 35 *", "illegal_transition t/z event 36 *", "turn_row_differs t/z turn row *")
    ),
    "a second beginning of the thread": Expected(("illegal_transition t event 39 *",)),
    "an event of the thread in a turn": Expected(
        ("illegal_transition t/a event 39 *", "turn_row_differs t/a turn row *", "snapshot_differs t/a snapshot *")
    ),
    "a retry of nothing": Expected(
        (
            "dangling t/turn-2 event 23 *",
            "turn_row_differs t/turn-2 turn row *",
            "turn_row_differs t/turn-2 turn row: names",
        ),
        ("turn_row_differs t/turn-2 turn row: names",),
    ),
    "a truncation of the future": Expected(("dangling t event 39 *", "thread_row_differs t thread row *")),
    "a truncation that names nothing": Expected(("dangling t event 39 *", "thread_row_differs t thread row *")),
    "a call that nothing answers": Expected(
        (
            "seq_gap t events 6 to 7 *",
            "orphan_call t/a event 5 *",
            "turn_row_differs t/a turn row *",
            "snapshot_differs t/a snapshot",
        ),
        ("snapshot_differs t/a snapshot",),
    ),
    "an output of no call": Expected(
        ("orphan_output t/a event 7 *", "snapshot_differs t/a snapshot"), ("snapshot_differs t/a snapshot",)
    ),
    "the row of a turn is gone": Expected(
        (
            "orphan t event 2",
            "orphan t event 3",
            "orphan t event 4",
            "orphan t event 5",
            "orphan t event 6",
            "orphan t event 7",
            "orphan t event 8",
            "orphan t event 9",
            "orphan t event 10",
            "dangling t event 16 *",
        ),
        (
            "orphan t event 2",
            "orphan t event 3",
            "orphan t event 4",
            "orphan t event 5",
            "orphan t event 6",
            "orphan t event 7",
            "orphan t event 8",
            "orphan t event 9",
            "orphan t event 10",
        ),
    ),
    "the row of a thread is gone": Expected(("orphan  store", "orphan  store"), ("orphan  store", "orphan  store")),
    "the fold of a turn is no JSON": Expected(("turn_row_differs t/a turn row *",)),
    "the fold of another turn": Expected(("turn_row_differs t/a turn row *",)),
    "a settled turn called started": Expected(("turn_row_differs t/a turn row *",)),
    "another first event in a row": Expected(("turn_row_differs t/a turn row *",)),
    "another last event in a row": Expected(("turn_row_differs t/a turn row *",)),
    "too few places": Expected(("turn_row_differs t/a turn row: places *",)),
    "keys swapped": Expected(
        ("turn_row_differs t/a turn row: names", "turn_row_differs t/z turn row: names"),
        ("turn_row_differs t/a turn row: names", "turn_row_differs t/z turn row: names"),
    ),
    "an owner and a fence of nobody": Expected(()),
    "the head of long ago": Expected(("head t thread row *",)),
    "a head ahead of all": Expected(("seq_gap t events 39 to 50 *",)),
    "the fold of a thread is no JSON": Expected(("thread_row_differs t thread row *",)),
    "another time in a thread's row": Expected(("thread_row_differs t thread row *",)),
    "a pin that nobody set": Expected(("thread_row_differs t thread row *",)),
    "a late event the row does not know": Expected(("turn_row_differs t/d turn row: late *",)),
    "text left by a settled turn": Expected(("draft_left_behind t/a draft 0/~0/text/0 *",)),
    "text of no turn": Expected(("orphan t thread",), ("orphan t thread",)),
    "a byte of a snapshot": Expected(("snapshot_differs t/a snapshot *",)),
    "a snapshot of another turn": Expected(("snapshot_differs t/a snapshot *",)),
    "a snapshot of the future": Expected(("snapshot_differs t/a snapshot *",)),
    "a page of a snapshot is gone": Expected(()),
    "a lease of nobody": Expected(("dead_lease  owner ghost *",)),
    "a lock file left behind": Expected(()),
    "a bit of a large body": Expected(
        ("malformed long/l1 event 11 *", "snapshot_differs long/l1 snapshot"), ("snapshot_differs long/l1 snapshot",)
    ),
    "a page of events": Expected(
        ("unreadable  store", "unreadable long event 11", "snapshot_differs long/l1 snapshot"),
        ("unreadable  store", "unreadable long event 11", "snapshot_differs long/l1 snapshot"),
    ),
    "an entry of an index is gone": Expected(("index_differs  index turn_order of turn *",)),
}

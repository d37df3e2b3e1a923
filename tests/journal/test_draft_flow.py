"""Drafts on their way to the disk: coalesced, bounded, exact to the character."""

from __future__ import annotations

import pytest

from tests.journal.stores import Store, drafts, events, eventually, items, kinds, message, texts, unavailable
from turnlog.errors import Fenced, Overloaded, StoreUnavailable, TooLarge
from turnlog.events.kinds import Interrupted
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.limits import (
    DRAFT_BYTES_MAX,
    DRAFT_CHUNK_BYTES,
    DRAFT_DELAY_S,
    DRAFT_PENDING_BYTES_MAX,
    DRAFTS_OPEN_MAX,
)
from turnlog.testing.clock import ManualClock


def begun(log: Log, thread: str = "t") -> Turn:
    turn = log.submit(thread, "question").result()
    turn.start().result()
    return turn


def chunks(store: Store, thread: str = "t") -> list[tuple[str, int, str]]:
    """(draft, offset, text) of all stored chunks."""
    tail = store.engine().tail(thread, after=10**6, rev=0, limit=0)
    return [(chunk.draft, chunk.offset, chunk.text.decode("utf-8", "surrogatepass")) for chunk in tail.chunks]


def test_chunks_wait_a_moment_for_more(store: Store) -> None:
    """P2: chunks are written together after 50 ms and not before, with nobody awaiting them."""
    clock = ManualClock()
    log = store.open(clock=clock)
    turn = begun(log)
    commits = store.faults(log).traps.reached("commit.before")
    for text in ("a", "b", "c"):
        turn.draft(text)
        clock.advance(DRAFT_DELAY_S / 5)
    log.append_message("other", {}).result()
    assert drafts(log) == {}
    clock.advance(DRAFT_DELAY_S)
    eventually(lambda: drafts(log) == {"0/~0/text/0": "abc"})
    assert store.faults(log).traps.reached("commit.before") == commits + 2


def test_a_page_of_text_does_not_wait(store: Store) -> None:
    """P2: 4 KiB of text are written at once, on a clock that stands still; a byte less waits."""
    clock = ManualClock()
    log = store.open(clock=clock)
    turn = begun(log)
    turn.draft("é" * (DRAFT_CHUNK_BYTES // 2 - 1) + "x")
    log.append_message("other", {}).result()
    log.append_message("other", {}).result()
    assert drafts(log) == {}
    turn.draft("x")
    eventually(lambda: len(drafts(log).get("0/~0/text/0", "")) == DRAFT_CHUNK_BYTES // 2 + 1)


def test_a_write_of_the_turn_takes_waiting_text_along(store: Store) -> None:
    """Text given before an item is durable when the item is, and lies before it."""
    log = store.open(clock=ManualClock())
    turn = begun(log)
    waiting = turn.draft("before")
    turn.item({"type": "function_call", "call_id": "c"}).result()
    assert waiting.done()
    (draft,) = log.drafts("t")
    assert draft.after == events(log)[-1].seq - 1


def test_drafts_need_not_be_awaited(log: Log) -> None:
    """A hundred chunks that nobody awaits are all in the answer, in their order."""
    with log.turn("t", "question") as turn:
        for n in range(100):
            turn.draft(f"{n} ")
    assert texts(log) == ["".join(f"{n} " for n in range(100))]


def test_offsets_count_code_points(store: Store, log: Log) -> None:
    """Offsets of chunks count Unicode code points, not bytes or UTF-16 units, and their texts join to the whole."""
    turn = begun(log)
    for text in ("a\u00e9", "😀", "\x00", "z"):
        turn.draft(text).result()
    assert chunks(store) == [
        ("0/~0/text/0", 0, "a\u00e9"),
        ("0/~0/text/0", 2, "😀"),
        ("0/~0/text/0", 3, "\x00"),
        ("0/~0/text/0", 4, "z"),
    ]
    assert drafts(log) == {"0/~0/text/0": "a\u00e9😀\x00z"}


def test_halves_of_a_character_wait_for_each_other(store: Store, log: Log) -> None:
    """C19: a chunk never splits a character: a trailing high surrogate waits for its half, and is not lost."""
    turn = begun(log)
    turn.draft("a\ud83d").result()
    assert drafts(log) == {"0/~0/text/0": "a"}
    turn.draft("\ude00b").result()
    assert chunks(store) == [("0/~0/text/0", 0, "a"), ("0/~0/text/0", 1, "😀b")]


@pytest.mark.parametrize("end", ["complete", "interrupt"])
def test_a_lone_half_is_kept(log: Log, end: str) -> None:
    """C19: a half whose other half never comes is stored losslessly when the draft is closed."""
    turn = begun(log)
    turn.draft("\ud83d").result()
    turn.draft("x\ude00").result()
    turn.draft("\ud83d").result()
    (turn.complete() if end == "complete" else turn.interrupt("failed")).result()
    assert texts(log) == ["\ud83dx\ude00\ud83d"]


def test_a_draft_of_half_a_character_alone_is_kept(log: Log) -> None:
    """C19: even a draft that never had a whole character is in the log at the end."""
    turn = begun(log)
    turn.draft("\ud83d").result()
    assert drafts(log) == {}
    turn.complete().result()
    assert texts(log) == ["\ud83d"]


@pytest.mark.parametrize("text", ["a\x00b", "\\u0000", "\\\\u0000", "\u2028\u2029\u0085"])
def test_nul_and_escapes_stay_what_they_are(log: Log, text: str) -> None:
    """C17, C18: NUL, six literal characters that look like it, and odd line ends come back as they were given."""
    turn = begun(log)
    turn.draft(text).result()
    assert drafts(log) == {"0/~0/text/0": text}
    turn.complete().result()
    assert texts(log) == [text]


def test_a_stalled_disk_slows_down_then_refuses(store: Store, log: Log) -> None:
    """P11: while the disk stalls, text gathers up to a limit, then `draft` raises and has taken nothing."""
    turn = begun(log)
    with store.faults(log).hold("commit.before") as hold:
        log.append_message("other", {})
        hold.wait_held()
        part, count = "x" * 1_000, DRAFT_PENDING_BYTES_MAX // 1_000
        receipts = [turn.draft(part, target=f"m{n % 50}") for n in range(count)]
        with pytest.raises(Overloaded) as caught:
            turn.draft(part, target="m0")
        assert caught.value.limit == "DRAFT_PENDING_BYTES_MAX"
        hold.release()
    for receipt in (*receipts, turn.draft("!", target="m0")):
        receipt.result(30)
    written = drafts(log)
    assert sum(map(len, written.values())) == count * 1_000 + 1
    assert written["0/m0/text/0"].endswith("x!")


def test_text_over_the_limit_ends_the_turn_too_large(log: Log) -> None:
    """P4: text that cannot be kept is refused whole and by name, and so is all that follows until the turn is ended."""
    turn = begun(log)
    turn.draft("x" * DRAFT_BYTES_MAX).result()
    with pytest.raises(TooLarge) as caught:
        turn.draft("y").result()
    assert caught.value.limit == "DRAFT_BYTES_MAX"
    for refused in (turn.item({}), turn.complete(), turn.drop_attempt()):
        with pytest.raises(TooLarge):
            refused.result()
    with pytest.raises(TooLarge):
        turn.draft("z")
    turn.interrupt("too_large", str(caught.value)).result()
    assert texts(log) == ["x" * DRAFT_BYTES_MAX]
    assert log.turn_view("t", turn.id).reason == "too_large"


def test_text_beside_too_large_text_is_kept(log: Log) -> None:
    """P4: of what waits together with text over the limit, all that fits is written, and its receipts say so."""
    turn = begun(log)
    good = turn.draft("good", target="a")
    bad = turn.draft("x" * (DRAFT_BYTES_MAX + 1), target="b")
    item = turn.item(message("never"))
    for refused in (bad, item):
        with pytest.raises(TooLarge):
            refused.result(30)
    good.result(30)
    assert drafts(log) == {"0/a/text/0": "good"}


def test_leaving_a_block_after_too_much_text_says_too_large(log: Log) -> None:
    """P4: a block that wrote too much is left with `TooLarge`, and its turn ends `too_large` with what fitted."""
    with pytest.raises(TooLarge), log.turn("t", "question") as turn:
        turn.draft("fits")
        turn.draft("x" * DRAFT_BYTES_MAX)
    (end,) = [event.body for event in events(log) if isinstance(event.body, Interrupted)]
    assert end.reason == "too_large"
    assert texts(log) == ["fits"]


def test_escapes_count_as_what_they_take(log: Log) -> None:
    """P4: a draft's size is that of its JSON, so that what was shown always fits the item that closes it."""
    turn = begun(log)
    turn.draft("\x01" * (DRAFT_BYTES_MAX // 6)).result()
    with pytest.raises(TooLarge):
        turn.draft("\x01" * 6).result()
    turn.interrupt("too_large").result()
    assert texts(log) == ["\x01" * (DRAFT_BYTES_MAX // 6)]


def test_open_drafts_are_bounded(log: Log) -> None:
    """P11: more open drafts than one write can close are refused, and those that are open are closed in one write."""
    turn = begun(log)
    for n in range(DRAFTS_OPEN_MAX):
        turn.draft("x", target=f"m{n}")
    with pytest.raises(TooLarge) as caught:
        turn.draft("x", target="more").result()
    assert caught.value.limit == "DRAFTS_OPEN_MAX"
    turn.interrupt("too_large").result()
    assert texts(log) == ["x"] * DRAFTS_OPEN_MAX


def test_text_is_written_when_the_store_works_again(store: Store, log: Log) -> None:
    """P4: text whose write failed is told to whoever awaits it, and is durable by itself once the store works again."""
    turn = begun(log)
    turn.draft("a").result()
    trap = store.faults(log).fail("commit.before", unavailable, forever=True)
    failed = turn.draft("b")
    with pytest.raises(StoreUnavailable) as caught:
        failed.result(30)
    assert (caught.value.thread, caught.value.turn) == ("t", turn.id)
    turn.draft("c")
    eventually(lambda: trap.fired > 2)
    store.faults(log).heal()
    store.clock.advance(2)
    eventually(lambda: drafts(log) == {"0/~0/text/0": "abc"})


def test_text_in_doubt_is_written_once(store: Store, log: Log) -> None:
    """P2: a chunk whose commit raised although it was stored is neither lost nor written twice."""
    turn = begun(log)
    store.faults(log).fail("commit.after", unavailable)
    with pytest.raises(StoreUnavailable):
        turn.draft("a").result(30)
    assert drafts(log) == {"0/~0/text/0": "a"}
    place = [(draft.after, draft.rev) for draft in log.drafts("t")]
    turn.draft("b").result(30)
    assert chunks(store) == [("0/~0/text/0", 0, "a"), ("0/~0/text/0", 1, "b")]
    assert [(draft.after, draft.rev) for draft in log.drafts("t")] == place
    turn.complete().result()
    assert texts(log) == ["ab"]
    assert kinds(log).count("assistant_started") == 1


@pytest.mark.parametrize("verb", ["commit.before", "commit.after"])
def test_text_that_goes_with_a_failed_item_keeps_its_order(store: Store, log: Log, verb: str) -> None:
    """P4: text before and after an item whose write failed, and the reading after it too, is whole and in order."""
    turn = begun(log)
    turn.draft("a", target="m").result()
    faults = store.faults(log)
    hold = faults.hold("commit.before")
    log.append_message("other", {})
    hold.wait_held()
    faults.fail(verb, unavailable, k=1 if verb == "commit.before" else 2)  # the held one is past the first place
    failed_read = faults.fail("tail.before", unavailable)
    turn.draft("b", target="m")
    item = turn.item({"type": "function_call", "call_id": "c"})
    turn.draft("c", target="m")
    step = turn.step("s", status="running")
    turn.draft("d", target="m")
    hold.release()
    for receipt in (item, step):
        try:
            receipt.result(30)
        except StoreUnavailable:
            continue
    assert failed_read.fired
    turn.draft("e", target="m")
    turn.complete().result(30)
    assert texts(log) == ["abcde"]


def test_a_fenced_writer_cannot_show_anything(store: Store, log: Log) -> None:
    """P7: a writer that was taken over is refused its drafts, and none of their text is ever seen."""
    turn = begun(log)
    turn.draft("seen ").result()
    with store.paused(log):
        store.clock.advance(31)
        late = turn.draft("unseen")
        assert [found.turn for found in store.open().recovered] == [turn.id]
    with pytest.raises(Fenced):
        late.result(30)
    with pytest.raises(Fenced):
        turn.draft("unseen").result(30)
    assert texts(log) == ["seen "]
    assert drafts(log) == {}


def test_nothing_of_the_items_is_lost_in_a_long_turn(log: Log) -> None:
    """P4: drafts and items of a thousand steps, none of them awaited, are all there in the end, in order."""
    with log.turn("t", "question") as turn:
        for n in range(300):
            turn.draft(f"{n}")
            turn.item(message(f"{n}!", id=None))
    assert texts(log) == [f"{n}!" for n in range(300)]
    assert all(len(item.closes) <= 1 for item in items(log))
    assert drafts(log) == {}

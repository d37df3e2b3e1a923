"""Turns that were taken out of the conversation, on pages, in lists and live: the same at every position."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.folds.simulate import Frame, Simulator, reworked
from tests.journal.test_reading import Keeper, check_pages
from turnlog.events.kinds import Event
from turnlog.folds.hidden import Hidden
from turnlog.journal.paging import PageFold
from turnlog.journal.reading import TranscriptPage


def feed(fold: PageFold, frames: list[Frame]) -> None:
    for frame in frames:
        if isinstance(frame, Event):
            fold.event(frame)
        else:
            fold.draft(frame)


@given(reworked(), st.integers(1, 4))
def test_pages_of_a_reworked_thread_are_the_whole(simulator: Simulator, limit: int) -> None:
    """P9: pages know of truncations and retries that stand on later ones, and together they are the transcript."""
    check_pages(simulator, limit)


@given(reworked(), st.integers(1, 3), st.data())
def test_an_older_page_that_is_followed_equals_the_reloaded_one(
    simulator: Simulator, limit: int, data: st.DataObject
) -> None:
    """P9: a page loaded before a truncation came, and fed with what came, shows what loading it again shows."""
    position = data.draw(st.integers(1, len(simulator.frames)))
    keeper = Keeper()
    earlier = keeper.keep(simulator.frames[:position])
    live: list[tuple[bytes, PageFold]] = []
    before = earlier.transcript("t", limit, None).next
    while before is not None:
        page = earlier.transcript("t", limit, before)
        live.append((before, _opened(page, before, simulator.frames[:position])))
        before = page.next
    later = keeper.keep(simulator.frames[position:])
    for cursor, fold in live:
        feed(fold, simulator.frames[position:])
        reloaded = later.transcript("t", limit, cursor)
        shown = fold.view()
        assert shown.messages == reloaded.messages
        assert shown.notices == reloaded.notices


def _opened(page: TranscriptPage, cursor: bytes, frames: list[Frame]) -> PageFold:
    """The page as a live reader has it: of the events from its first one on."""
    end = int(cursor.partition(b":")[0])
    first = 1 if page.next is None else int(page.next.partition(b":")[0])
    fold = PageFold({row.turn for row in page.turns}, end)
    feed(fold, [it for it in frames if not isinstance(it, Event) or it.seq >= first])
    shown = fold.view()
    assert (shown.messages, shown.notices) == (page.messages, page.notices)
    return fold


@given(reworked())
def test_rows_tell_what_hides_a_turn(simulator: Simulator) -> None:
    """A row names the truncation that holds for its turn, and a turn asked again is shown once that one is hidden."""
    reading = Keeper().keep(simulator.frames)
    told = {row.turn: row for row in reading.turns("t", 1_000, None).rows}
    whole = reading.transcript("t", 1_000, None)
    for turn, begun in simulator.begun_at.items():
        by = next((seq for after, seq in simulator.holding if after < begun < seq), None)
        assert told[turn].hidden_by == reading.turn("t", turn).hidden_by == by
        assert {it.hidden for it in whole.messages if it.turn == turn} == {told[turn].hidden}
        child = told[turn].retried_by
        assert child is None or told[child].hidden_by == by
    latest = [turn for turn in simulator.begun_at if told[turn].hidden_by is None]
    assert reading.thread("t").latest == (latest[-1] if latest else None)


@given(reworked(), st.randoms(use_true_random=False))
def test_truncations_may_be_told_in_any_order(simulator: Simulator, random: Random) -> None:
    """What is hidden does not depend on the order in which truncations become known."""
    events = [frame for frame in simulator.frames if isinstance(frame, Event) and frame.kind == "thread_truncated"]
    random.shuffle(events)
    hidden = Hidden()
    for event in events:
        hidden.add(event.body.after, event.seq)  # type: ignore[union-attr]  # it is a truncation
    assert [(known.after, known.seq) for known in hidden.ranges] == simulator.holding

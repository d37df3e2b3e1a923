"""Frames applied to a page give the page: over simulated threads, cut and joined anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.folds.simulate import Frame, Simulator, events_of, reworked, threads, whole_drafts
from tests.web.page.dom import Page
from turnlog.events.kinds import Event, Submitted
from turnlog.limits import PAGE_TURNS
from turnlog.web.page.markup import page_html
from turnlog.web.page.thread_view import ThreadPage
from turnlog.web.page.versions import Versions, frames

WINDOW = 3
"""Turns of a page in these tests, so that turns leave it."""


def begun(events: Sequence[Event], window: int) -> ThreadPage:
    """The page as it is made for somebody who comes after `events`."""
    turns = [(event.turn, event.seq) for event in events if isinstance(event.body, Submitted) and event.turn]
    first = 1 if len(turns) <= window else turns[-window][1]
    page = ThreadPage("t", turns[-window:], first, turns_max=window)
    page.earlier = None if len(turns) > window else ""
    return page


def feed(page: ThreadPage, given_frames: Sequence[Frame]) -> None:
    for frame in given_frames:
        if isinstance(frame, Event):
            page.event(frame)
        else:
            page.draft(frame)


def fresh(given_frames: Sequence[Frame], window: int = PAGE_TURNS) -> ThreadPage:
    """A page that is read from the log: events, then each open draft whole."""
    page = begun(events_of(given_frames), window)
    feed(page, [event for event in events_of(given_frames) if event.seq >= page.first])
    feed(page, whole_drafts(given_frames))
    return page


def html(page: ThreadPage) -> str:
    return f'<main id="thread" data-thread>{page_html(page.elements())}</main>'


class Live:
    """A live page that takes frames batch by batch."""

    def __init__(self, given_frames: Sequence[Frame], window: int = PAGE_TURNS) -> None:
        self.page = fresh(given_frames, window)
        self.versions = Versions()
        self.versions.update(self.page.elements())

    def take(self, given_frames: Sequence[Frame]) -> None:
        feed(self.page, given_frames)
        self.versions.update(self.page.elements())


class Client:
    """A browser: it holds a page and the version that it has."""

    def __init__(self, given_frames: Sequence[Frame], window: int = PAGE_TURNS) -> None:
        page = fresh(given_frames, window)
        self.seq = page.head
        self.page = Page(html(page))
        self.version = -1

    def connect(self, live: Live) -> None:
        """Come (back) with the position of what was applied last."""
        operations = live.versions.whole(live.page.since(self.seq))
        self._apply(frames(operations, f"e.{live.page.head}"), live)

    def advance(self, live: Live) -> None:
        self._apply(frames(live.versions.since(self.version), f"e.{live.page.head}"), live)

    def _apply(self, data: bytes, live: Live) -> None:
        at = self.page.apply(data)
        self.version = live.versions.version
        if at is not None:
            self.seq = int(at.rpartition(".")[2])


def may_connect(client: Client, live: Live) -> bool:
    """Whether a page of that position can be brought up to date, or is told to fetch itself again."""
    return client.seq >= live.page.first - 1 or live.page.earlier == ""


@settings(max_examples=60, deadline=None)
@given(st.one_of(threads(), reworked()), st.data())
def test_live_equals_reloaded(thread: Simulator, data: st.DataObject) -> None:
    """At every position the frames, however they were cut, missed and caught up with, make of a page what a reload
    would show (P9, C22, C23, C39, C41)."""
    all_frames = thread.frames
    at = data.draw(st.integers(1, len(all_frames)))
    live = Live(all_frames[:at], WINDOW)
    clients = [Client(all_frames[:at], WINDOW)]
    clients[0].connect(live)
    while at < len(all_frames):
        start, at = at, data.draw(st.integers(at + 1, len(all_frames)))
        live.take(all_frames[start:at])
        shown = Page(html(fresh(all_frames[:at], WINDOW)))
        for client in clients:
            act = data.draw(st.sampled_from(["advance", "advance", "sleep", "reconnect"]))
            if act == "sleep":
                continue
            if act == "reconnect" and may_connect(client, live):
                client.connect(live)
            else:
                client.advance(live)
            assert client.page.thread.shown() == shown.thread.shown()
        if data.draw(st.booleans()):
            clients.append(Client(all_frames[: data.draw(st.integers(start, at))], WINDOW))
            if may_connect(clients[-1], live):
                clients[-1].connect(live)
                assert clients[-1].page.thread.shown() == shown.thread.shown()
            else:
                clients.pop()


def check_every_cut(thread: Simulator, window: int = PAGE_TURNS) -> None:
    """A page of each position, followed frame by frame and caught up with at once, is the page of the end."""
    all_frames = thread.frames
    shown = Page(html(fresh(all_frames, window))).thread.shown()
    for start in range(1, len(all_frames)):
        live, client = Live(all_frames[:start], window), Client(all_frames[:start], window)
        client.connect(live)
        for at in range(start, len(all_frames)):
            live.take(all_frames[at : at + 1])
            client.advance(live)
        assert client.page.thread.shown() == shown
        late = Client(all_frames[:start], window)
        if may_connect(late, live):
            late.connect(live)
            assert late.page.thread.shown() == shown


def test_a_parent_may_come_after_what_is_in_it() -> None:
    """Steps that stood alone move into the sub-agent that turns out to be their parent (C23)."""
    thread = Simulator()
    thread.step("tool", step="tool", parent="agent", status="running")
    thread.step("inner", step="subagent", parent="agent", status="running")
    thread.step("leaf", step="tool", parent="inner", status="running")
    thread.step("agent", step="subagent", status="running", title="Look")
    thread.step("leaf", status="failed")
    check_every_cut(thread)


def test_those_behind_move_up() -> None:
    """A waiting turn shows its new place when one before it has ended, though no event of its own came (P9)."""
    thread = Simulator()
    thread.submit()
    thread.start()
    for _ in range(3):
        thread.submit()
    thread.draft("hello")
    check_every_cut(thread)
    thread.complete()
    thread.start()
    check_every_cut(thread)
    assert "Waiting, next in line" in Page(html(fresh(thread.frames))).thread.text


def test_a_turn_that_is_asked_again_folds_away() -> None:
    """An interrupted turn becomes one line when it is asked again, also on pages that had it whole."""
    thread = Simulator()
    thread.message("partial")
    thread.interrupt()
    thread.retry()
    check_every_cut(thread)
    assert "It was asked again" in Page(html(fresh(thread.frames))).find("turn-turn-1").text


def test_what_is_taken_back_folds_away() -> None:
    """Neighbours that a truncation or an edit takes out become one line, in which each is found by its question, also
    on pages that had them whole; what belongs to no turn goes, and what was edited is asked below (P9)."""
    thread = Simulator()
    thread.message("stays")
    thread.complete()
    for number in range(2):
        thread.loose("assistant", f"aside {number}")
        thread.message(f"answer {number}")
        thread.complete()
    thread.edit("turn-2")
    check_every_cut(thread)
    page = Page(html(fresh(thread.frames)))
    assert "stays" in page.find("turn-turn-1").text
    line = page.find("taken-turn-2")
    assert line.tag == "details"
    assert line.text == "2 turns taken backquestionquestion"
    assert [node.attributes["href"] for node in line.walk() if node.tag == "a"] == [
        f"/t/t/turn/turn-{number}" for number in (2, 3)
    ]
    assert "aside 1" not in page.thread.text
    assert "changed here" not in page.thread.text


def test_what_is_taken_back_again_joins_its_neighbours() -> None:
    """Lines of turns that were taken back become one when what lay between them is taken back too, and one that has
    lost its oldest turn to the page before tells how many are left (P9)."""
    thread = Simulator()
    for number in range(5):
        thread.message(f"answer {number}")
        thread.complete()
    thread.truncate("turn-5")
    thread.message("more")
    thread.complete()
    thread.truncate("turn-4")
    check_every_cut(thread)
    shown = Page(html(fresh(thread.frames)))
    assert shown.find("sum-taken-turn-4").text == "3 turns taken back"
    thread.message("and more")
    thread.complete()
    check_every_cut(thread, WINDOW)
    assert Page(html(fresh(thread.frames, WINDOW))).find("sum-taken-turn-5").text == "2 turns taken back"


def test_the_oldest_turn_leaves_the_page() -> None:
    """A live page shows as many turns as a reloaded one, and what belongs to no turn leaves with the turn before it."""
    thread = Simulator()
    for number in range(6):
        thread.loose("assistant", f"aside {number}")
        thread.message(f"answer {number}")
        thread.complete()
    check_every_cut(thread, WINDOW)
    shown = Page(html(fresh(thread.frames, WINDOW))).thread.text
    assert "answer 3" in shown
    assert "answer 2" not in shown


def test_rows_of_a_long_trace_leave_in_groups() -> None:
    """A running turn shows its newest rows and says so; what leaves a live page is not on a reloaded one either."""
    thread = Simulator()
    thread.step("agent", step="subagent", status="running")
    for number in range(260):
        thread.step(f"s{number}", step="tool", parent="agent" if number % 2 else None, status="succeeded")
    live, client = Live(thread.frames[:150]), Client(thread.frames[:150])
    client.connect(live)
    for at in range(150, len(thread.frames), 7):
        live.take(thread.frames[at : at + 7])
        client.advance(live)
    shown = Page(html(fresh(thread.frames))).thread
    assert client.page.thread.shown() == shown.shown()
    assert sum("kind-tool" in node.attributes.get("class", "") for node in shown.walk()) == 161
    assert "The newest 161 of 261 steps" in shown.text


def test_what_settled_is_fetched_when_it_is_opened() -> None:
    """The rows of a trace leave the page when its turn has settled: they are then fetched from the address it names."""
    thread = Simulator()
    thread.step("s", step="tool", status="running")
    live, client = Live(thread.frames), Client(thread.frames)
    client.connect(live)
    assert client.page.find("steps-turn-1").children
    at = len(thread.frames)
    thread.complete()
    live.take(thread.frames[at:])
    client.advance(live)
    assert not client.page.find("steps-turn-1").children
    assert client.page.find("trace-turn-1").attributes["data-src"] == "/t/t/turn/turn-1/trace"

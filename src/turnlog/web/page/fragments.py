"""The fragments of a turn and of a thread: one partial each, for the page and for its stream.

`T` is the turn's `dom_id`, `E` that of an entry, `n` counts from 0, `S` is a seq. (s) marks shells.

    main#thread (s: written by the page itself, children:)
      nav#earlier-link           [data-earlier] on its link; empty when there are none
      div#earlier (s)            [data-keep], always empty from here: the browser puts earlier turns in
      div#turns (s)              the turns, and what belongs to no turn, in order
        p#empty                  instead of turns when there are none
        section#turn-T (s)       .turn  [data-state] = the turn's state  [data-turn] = its id in paths
                                 [data-asks] where it waits for a person  [aria-label] = how its question begins
          div#ask-T (s)          .ask
            header#who-T         h2#h-T, .change once it has settled: links to the forms of its own page, time
            div#text-T (s)       .text, pre-wrap; span#text-T:n
            ul#files-T           attachments
          details#trace-T (s)    .trace  [data-state]=running|settled, [data-src] when settled, open while it runs
            summary#sum-T        .sum
            ol#steps-T (s)       .steps  [data-keep] when settled: filled by the browser from [data-src]
              li#step-T:E (s)    .step .step-<status> .kind-<kind>
                div#row-T:E      .row: p.head (.kind .name .target .end (.tag .time)), .remark, .failure .next, .text,
                                 details.io
                ol#kids-T:E (s)  .steps, only when it has children
            p#more-T             link to the turn's own page
          p#working-T            instead of the details, while a turn that runs has no steps
          p#notrace-T            instead of the details, when a settled turn has no steps; one never begun has neither
          div#answer-T (s)       .answer  [aria-busy] = true while it runs
            h2#said-T            .visually-hidden, before the first message
            div#msg-T:n (s)      .msg; children are Markdown blocks: ids begin with msg-T:n, shells are
                                 ul ol li blockquote table tbody pre.hl div.plain, leaves p h3-h6 hr thead tr code span;
                                 thead, tr and th or td .plain are shells in a row that is too large to be laid out;
                                 p#msg-T:n:why .mark says that a message is shown as it was written
            p#mark-T:n           .mark after a message that no item of the agent ended
          p#other-T:S            .notice about a record of the turn
          div#notice-T           .notice .notice-<queued|running|waiting|interrupted>, with the forms [data-post=...];
                                 div.asked for each entry that waits for a person
          footer#foot-T          .foot, of settled turns
        section#turn-T.retried   of a turn that was asked again, or taken back: only p#retried-T
        details#taken-T (s)      .taken: neighbours that were taken back, T the first of them: summary#sum-taken-T, and
                                 their section#turn-T.retried
        section#loose-S (s)      .turn.loose: header#who-loose-S, then div#msg-loose-S (s) or div#text-loose-S (s)
        p#note-S                 .notice about a record of no turn

What carries [data-live] has text that the browser writes; [data-since] is a time in µs since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from turnlog.folds.entries import Entry
from turnlog.folds.notices import Notice
from turnlog.folds.states import STARTED, TERMINAL
from turnlog.folds.transcript import Message
from turnlog.limits import FILES_SHOWN, NOTICES_SHOWN, TRACE_DEPTH_SHOWN, TRACE_ROWS_LEAVE, TRACE_ROWS_SHOWN
from turnlog.web.page.endings import end_detail, notice_words
from turnlog.web.page.markdown import Markdown
from turnlog.web.page.markup import Element, clean, dom_id, element, plain, shell
from turnlog.web.page.naming import in_words, label, one_line
from turnlog.web.page.rendering import leaf
from turnlog.web.page.view import TurnShown, Unknown
from turnlog.web.paths import path_id

_NAME_CHARS: Final = 80
"""Characters of a question by which its turn is named to those who do not see it."""

_NOTHING: Final = frozenset({"", "{}", "[]", "null", '""'})


class Place(NamedTuple):
    """Where a turn's pages are. `thread` and `turn` are as they stand in a path."""

    thread: str
    turn: str

    @property
    def thread_path(self) -> str:
        """The thread's page."""
        return f"/t/{self.thread}"

    @property
    def forms(self) -> str:
        """What the turn's forms are sent to, without the verb."""
        return f"/t/{self.thread}/turns/{self.turn}"

    @property
    def page(self) -> str:
        """The turn's own page."""
        return f"/t/{self.thread}/turn/{self.turn}"


class TurnLayout:
    """Lays one turn out, again and again as it grows. What has not changed since the last time is not made again.

    `alone` is the layout of the turn's own page: with its whole answer even if it was asked again, its rows given.
    """

    def __init__(self, thread: str, turn: str, *, alone: bool = False) -> None:
        self._place = Place(path_id(thread), path_id(turn))
        self._tid = dom_id(turn)
        self._alone = alone
        self._markdown: list[Markdown] = []
        self._rows = Rows(self._place, self._tid)
        self._answer: dict[int, tuple[Message, list[Element]]] = {}

    def element(self, shown: TurnShown, rows: Sequence[Element] | None = None) -> Element:
        """The turn's section. `rows` are the rows of its trace where they are known."""
        retried = shown.notice is not None and shown.notice.retried_by is not None
        folded = (retried or shown.hidden) and not self._alone
        children = [self._folded(shown)] if folded else list(self._children(shown, rows))
        return shell(
            "section",
            f"turn-{self._tid}",
            children,
            class_="turn retried" if folded else "turn",
            data_turn=self._place.turn,
            data_state=shown.view.state,
            data_asks=bool(shown.waiting),
            **_named(shown.ask, f"retried-{self._tid}" if folded else f"h-{self._tid}", folded=folded),
        )

    def _folded(self, shown: TurnShown) -> Element:
        """One line for a turn that is no part of the conversation any more."""
        id_ = f"retried-{self._tid}"
        if shown.hidden:
            asked = "" if shown.ask is None else one_line(shown.ask.text)
            return leaf("hidden", id_, href=self._place.page, asked=asked)
        return leaf("retried", id_, tid=self._tid, end=_end(shown), unknown=_unknown(shown), href=self._place.page)

    def _children(self, shown: TurnShown, rows: Sequence[Element] | None) -> Iterable[Element]:
        state = shown.view.state
        yield self._ask(shown)
        if state in STARTED or shown.view.started_at is not None or shown.others:
            yield self._trace(shown, rows)
        yield shell("div", f"answer-{self._tid}", self._messages(shown), class_="answer", aria_busy=_busy(shown))
        yield from _others(f"other-{self._tid}:", shown.others)
        if shown.notice is not None:
            yield self._notice(shown, shown.notice)
        if state in TERMINAL:
            yield self._leaf("foot", view=shown.view, shown=bool(shown.answer), href=self._place.page)

    def _leaf(self, name: str, **values: object) -> Element:
        return leaf(name, f"{name}-{self._tid}", tid=self._tid, **values)

    def _ask(self, shown: TurnShown) -> Element:
        whole = shown.ask is not None and not shown.ask.attachments
        href = None if self._alone or shown.view.state not in TERMINAL else self._place.page
        children = [self._leaf("who", at=shown.view.submitted_at, href=href, edit=whole)]
        if shown.ask is not None:
            children.append(plain("div", f"text-{self._tid}", shown.ask.text, class_="text", dir="auto"))
            if files := shown.ask.attachments:
                more = max(0, len(files) - FILES_SHOWN)
                children.append(self._leaf("files", files=files[:FILES_SHOWN], more=more))
        return shell("div", f"ask-{self._tid}", children, class_="ask")

    # --- the trace -----------------------------------------------------------------------------------------------

    def _trace(self, shown: TurnShown, rows: Sequence[Element] | None) -> Element:
        running = shown.view.state in STARTED
        if not shown.steps.steps and not rows:
            return self._leaf("working" if running else "notrace", view=shown.view)
        left_out = 0
        if rows is None:
            entries, left_out = newest(shown.entries)
            rows = self._rows.elements(entries)
        fetched = not running and not self._alone
        steps = shell("ol", f"steps-{self._tid}", rows, class_="steps", data_keep=fetched)
        href = self._place.page
        children = [
            self._leaf("sum", steps=shown.steps, waiting=shown.waiting, view=shown.view, running=running),
            steps,
        ]
        if not self._alone:
            told = len(shown.entries) - left_out
            children.append(self._leaf("more", href=href, left_out=left_out, shown=told))
        return shell(
            "details",
            f"trace-{self._tid}",
            children,
            class_="trace",
            data_state="running" if running else "settled",
            data_src=f"{href}/trace" if fetched else None,
            open=not fetched,
        )

    # --- the answer ----------------------------------------------------------------------------------------------

    def _messages(self, shown: TurnShown) -> list[Element]:
        made: list[Element] = []
        if shown.answer:
            made.append(element("h2", f"said-{self._tid}", "Answer", class_="visually-hidden"))
        for number, message in enumerate(shown.answer):
            name = f"{self._tid}:{number}"
            made.append(shell("div", f"msg-{name}", self._blocks(number, message), class_="msg", dir="auto"))
            if message.synthesized is not None:
                made.append(leaf("mark", f"mark-{name}", mid=name, synthesized=message.synthesized))
        del self._markdown[len(shown.answer) :]
        return made

    def _blocks(self, number: int, message: Message) -> list[Element]:
        """The blocks of one message; of a message that has not changed, those of the last time."""
        if number == len(self._markdown):
            self._markdown.append(Markdown(f"msg-{self._tid}:{number}"))
        known = self._answer.get(number)
        if known is None or known[0] != message:
            growing = message.draft is not None
            known = message, self._markdown[number].elements(message.text, growing=growing)
            self._answer[number] = known
        return known[1]

    def _notice(self, shown: TurnShown, notice: Notice) -> Element:
        return self._leaf(
            "notice",
            notice=notice,
            view=shown.view,
            shown=bool(shown.answer),
            waiting=shown.waiting,
            unknown=_unknown(shown),
            end=_end(shown),
            detail=end_detail(notice.reason, shown.detail),
            queue_place=shown.queue_place or 0,
            base=self._place.forms,
            retry_href=f"{self._place.thread_path}/turn/{path_id(notice.retried_by)}" if notice.retried_by else None,
        )


def _end(shown: TurnShown) -> str | None:
    """How an interrupted turn ended, in words."""
    if shown.notice is None or shown.notice.kind != "interrupted":
        return None
    return notice_words(shown.notice.reason, shown.detail, began=shown.view.started_at is not None)


def _unknown(shown: TurnShown) -> Unknown:
    """The calls of unknown outcome: also those that its end names and its trace does not have."""
    told = len(shown.notice.unknown_calls) if shown.notice is not None else 0
    return shown.unknown._replace(calls=max(shown.unknown.calls, told))


def _named(ask: Message | None, id_: str, *, folded: bool) -> dict[str, str]:
    """The name of a turn's region: how its question begins, else what the element `id_` says."""
    label = "" if ask is None or folded else one_line(ask.text, _NAME_CHARS)
    return {"aria_label": clean(label)} if label else {"aria_labelledby": id_}


def _busy(shown: TurnShown) -> str:
    return "true" if shown.view.state in STARTED else "false"


def _others(prefix: str, notices: Sequence[Notice]) -> Iterable[Element]:
    for notice in notices[:NOTICES_SHOWN]:
        yield leaf("other", f"{prefix}{notice.seq}", notice=notice)
    if len(notices) > NOTICES_SHOWN:
        yield leaf("others_more", f"{prefix}more")


def newest(entries: Sequence[Entry]) -> tuple[Sequence[Entry], int]:
    """The newest entries of a running turn that one page shows, and how many older ones are left out."""
    over = len(entries) - TRACE_ROWS_SHOWN
    left_out = -(-over // TRACE_ROWS_LEAVE) * TRACE_ROWS_LEAVE if over > 0 else 0
    return entries[left_out:], left_out


class Rows:
    """The rows of a trace, nested; a row whose entry has not changed is not made again."""

    def __init__(self, place: Place, tid: str) -> None:
        self._place = place
        self._tid = tid
        self._known: dict[str, tuple[Entry, str | None, Element]] = {}
        self.rendered = 0

    def elements(self, entries: Sequence[Entry], names: dict[str, str] | None = None) -> list[Element]:
        """The top rows, with the others in them. `names` are those of entries that are not shown, by id."""
        ids = {entry.id for entry in entries}
        inside: dict[str | None, list[Entry]] = {}
        for entry in entries:
            inside.setdefault(entry.parent if entry.parent in ids else None, []).append(entry)
        known, self._known = self._known, {}
        return _Nesting(self, inside, known, names or {}).level(None, 1)

    def row(
        self, sid: str, entry: Entry, orphan: str | None, known: dict[str, tuple[Entry, str | None, Element]]
    ) -> Element:
        """The row of one entry itself, without what is in it."""
        last = known.get(sid)
        if last is None or last[:2] != (entry, orphan):
            self.rendered += 1
            last = entry, orphan, self._row(sid, entry, orphan)
        self._known[sid] = last
        return last[2]

    def _row(self, sid: str, entry: Entry, orphan: str | None) -> Element:
        entry = in_words(entry)
        args = None if (entry.args or "").strip() in _NOTHING else entry.args
        io = [("Arguments", args, 0)] if args else []
        io += [("Output", entry.output, entry.output_bytes)] if entry.output else []
        item = None if entry.item is None else f"/api/threads/{self._place.thread}/items/{entry.item}"
        return leaf("row", f"row-{sid}", sid=sid, entry=entry, orphan=orphan, io=io, item=item)

    def name(self, entry: Entry, taken: dict[str, Entry]) -> str:
        """The name of an entry in element ids; no two entries of a page have the same."""
        name = base = f"{self._tid}:{dom_id(entry.id)}"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}~{number}"
        taken[name] = entry
        return name


class _Nesting:
    """Puts rows into each other."""

    def __init__(
        self,
        rows: Rows,
        inside: dict[str | None, list[Entry]],
        known: dict[str, tuple[Entry, str | None, Element]],
        names: dict[str, str],
    ) -> None:
        self._rows, self._inside, self._known, self._names = rows, inside, known, names
        self._taken: dict[str, Entry] = {}

    def level(self, parent: str | None, depth: int) -> list[Element]:
        """The rows inside an entry. At the deepest level, what is in them stands beside them."""
        made: list[Element] = []
        waiting = list(reversed(self._inside.pop(parent, ())))
        while waiting:
            entry = waiting.pop()
            kids: list[Element] = []
            if depth < TRACE_DEPTH_SHOWN:
                kids = self.level(entry.id, depth + 1)
            else:
                waiting.extend(reversed(self._inside.pop(entry.id, ())))
            made.append(self._step(entry, kids))
        return made

    def _step(self, entry: Entry, kids: list[Element]) -> Element:
        sid = self._rows.name(entry, self._taken)
        orphan = self._names.get(entry.parent) if entry.parent is not None else None
        row = self._rows.row(sid, entry, orphan, self._known)
        children = [row, shell("ol", f"kids-{sid}", kids, class_="steps")] if kids else [row]
        return shell("li", f"step-{sid}", children, class_=f"step step-{entry.status} kind-{entry.kind}")


def loose_element(seq: int, one: Message | Notice) -> Element:
    """A message that belongs to no turn, or a notice about a record that does not."""
    if isinstance(one, Notice):
        return leaf("other", f"note-{seq}", notice=one)
    name = f"loose-{seq}"
    who = leaf("loose", f"who-{name}", role=one.role, at=one.at)
    if one.role == "assistant":
        blocks = Markdown(f"msg-{name}").elements(one.text, growing=False)
        body = shell("div", f"msg-{name}", blocks, class_="msg", dir="auto")
    else:
        body = plain("div", f"text-{name}", one.text, class_="text", dir="auto")
    return shell("section", name, [who, body], class_=f"turn loose {'answer' if one.role == 'assistant' else 'ask'}")


def names_of(entries: Iterable[Entry]) -> dict[str, str]:
    """What entries are called, by id: those that rows stand in without being shown."""
    return {entry.id: label(entry) for entry in entries}

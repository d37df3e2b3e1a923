"""What the conductor of a random mix knows: what was asked for, what was promised and what was shown, by whom."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from ..proof.facts import (
    Accepted,
    AnyFact,
    Decided,
    Ended,
    Fact,
    Happened,
    ShownDraft,
    ShownEvent,
    ShownJson,
    ShownMessage,
)
from ..web.followers import PageFollower
from .plan import MUST, Action
from .turns import TERMINAL, Pair, Turns

LOST = "lost"
"""What became of an action whose process died before it told."""

DONE = "done"

FEW = 50
"""Of the newest of something so many are kept at hand, so that what is drawn costs the same however long a mix goes."""

HAPPENING = {
    "decide": ("requested", "value", "value"),
    "append": ("thread_item", None, ""),
    "truncate": ("thread_truncated", None, ""),
    "rename": ("thread_renamed", "title", "text"),
    "compact": ("thread_compacted", "summary", "text"),
}
"""What the event of an action is, and which of its fields is which of the action's."""

QUIET = frozenset({"pending", "dead_lease", "late_event", "unfinished_fork", "orphan_call", "orphan_output"})
"""What an audit may find in a store whose processes are killed, before anybody has repaired it."""

HARMED = frozenset({"snapshot_differs", "turn_row_differs", "thread_row_differs"})
"""What it finds where something was damaged on purpose."""


@dataclass(frozen=True)
class Deed:
    """An action, who was asked to do it, and what was told of it: `done`, `lost`, or the name of a refusal."""

    action: Action
    by: str
    outcome: str
    value: Any


@dataclass
class Known:
    """Grows while the mix runs. `facts` are without repetitions; `wrong` is what no process may do."""

    facts: list[Fact] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    asked: dict[str, Action] = field(default_factory=dict)
    """Submissions by key, told of or not."""
    turn_of: dict[str, str] = field(default_factory=dict)
    """The turn of each key that was told."""
    turns: Turns = field(default_factory=Turns)
    untold: dict[str, Action] = field(default_factory=dict)
    """Submissions whose turn nobody was told yet, by key."""
    newest_asked: deque[Action] = field(default_factory=lambda: deque(maxlen=FEW))
    newest_told: deque[Action] = field(default_factory=lambda: deque(maxlen=FEW))
    """Submissions whose turn somebody was told."""
    contents: dict[Pair, Any] = field(default_factory=dict)
    owners: dict[Pair, str] = field(default_factory=dict)
    waiting: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Approvals that somebody was asked for."""
    speaking: set[Pair] = field(default_factory=set)
    """Turns of which somebody saw a draft."""
    harmed: set[str] = field(default_factory=set)
    """Threads in which something was damaged on purpose."""
    pages: dict[str, PageFollower] = field(default_factory=dict)
    """What people have open, by thread."""
    lacked: list[str] = field(default_factory=list)
    """What had not happened often enough when the time of the scale was over."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: set[Any] = field(default_factory=set)
    _owned: dict[str, list[Pair]] = field(default_factory=dict)

    async def until(self, wanted: Callable[[], bool], timeout: float) -> bool:
        """Wait until `wanted` is true of what is known; whether it became so in time."""
        try:
            async with asyncio.timeout(timeout):
                while not wanted():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            return False
        return True

    # --- facts --------------------------------------------------------------------------------------------------

    def report(self, name: str, line: str) -> None:
        """A child reported a fact."""
        fact: Fact = msgspec.convert(json.loads(line), AnyFact)
        self.take(fact, by=name)

    def take(self, fact: Fact, *, by: str = "") -> None:
        """Somebody knows something. An event that was shown before, to whomever, is no other fact."""
        if by:
            fact = msgspec.structs.replace(fact, to=f"{by} {fact.to}".strip())
        match fact:
            case ShownEvent(thread=thread, turn=turn, seq=seq, kind=kind, data=data):
                if (thread, turn, seq, data) in self._seen:
                    return
                self._seen.add((thread, turn, seq, data))
                self._learn(thread, turn, kind, fields_of(data))
            case ShownJson(thread=thread, turn=turn, kind=kind, seq=seq, body=body):
                text = json.dumps(body)
                if (thread, turn, seq, text) in self._seen:
                    return
                self._seen.add((thread, turn, seq, text))
                self._learn(thread, turn, kind, body)
            case ShownDraft(thread=thread, turn=turn):
                self.counts["drafts shown"] += 1
                self.speaking.add((thread, turn))
            case Ended(thread=thread) | ShownMessage(thread=thread) if thread in self.harmed:
                return  # it was read of what was damaged on purpose, maybe asked for before that
            case Ended(thread=thread, turn=turn, state=state):
                self.turns.end((thread, turn), state)
        self.facts.append(fact)
        self.news.set()

    def _learn(self, thread: str, turn: str, kind: str, fields: Any) -> None:
        """An event shows how a turn is, and what a person is asked."""
        if not turn:
            return
        if kind == "submitted":
            self.contents[thread, turn] = fields["content"]
            self.turns.begin((thread, turn))
        elif kind in TERMINAL:
            self.turns.end((thread, turn), kind)
            self.counts[f"{kind} {fields.get('reason', '')}".strip()] += 1
        elif kind == "step" and (fields.get("kind"), fields.get("status")) == ("approval", "waiting"):
            self.waiting[thread, turn, fields["id"]] = None

    def all_ended(self, pairs: Iterable[Pair]) -> bool:
        """Whether somebody saw each of these turns end."""
        return all(self.turns.state(pair) in TERMINAL for pair in pairs)

    def running_by(self, name: str) -> list[Pair]:
        """Turns that this process was told to be new, and that nobody saw end."""
        return [pair for pair in self._owned.get(name, ()) if self.turns.state(pair) not in TERMINAL]

    def approvals(self) -> list[tuple[str, str, str]]:
        """Those that are waited for. What nobody waits for any more is forgotten."""
        for one in [one for one in self.waiting if self.turns.state(one[:2]) in TERMINAL]:
            del self.waiting[one]
        return list(self.waiting)

    def newest_lost(self) -> list[Action]:
        """The last submissions that were asked for, and whose turn nobody was told."""
        return list(islice(reversed(self.untold.values()), FEW))

    # --- deeds --------------------------------------------------------------------------------------------------

    def ask(self, action: Action) -> None:
        """Somebody is about to ask for this submission."""
        assert action.key is not None
        self.asked[action.key] = self.untold[action.key] = action
        self.newest_asked.append(action)

    def done(self, action: Action, by: str, outcome: str, value: Any) -> None:
        """An action was done, refused or lost."""
        self.deeds.append(Deed(action, by, outcome, value))
        role = by.partition(" ")[0]
        self.counts[f"{role}: {action.what} {outcome}"] += 1
        self.counts[f"{action.what} {outcome}"] += 1
        if outcome == DONE:
            self._promised(action, by, value)
        self.news.set()

    def _promised(self, action: Action, by: str, value: Any) -> None:
        thread, turn = action.thread, action.turn
        if action.what in ("submit", "again", "conflict", "retry", "edit"):
            self._accepted(action, by, value)
        elif action.what == "decide":
            self.take(Decided(to=by, thread=thread, turn=turn, approval=action.text, value=action.value))
        elif action.what == "repair":
            self._repaired(action, by, value)
        if action.what in HAPPENING and value.get("seq"):
            kind, field, given = HAPPENING[action.what]
            turn = turn if action.what == "decide" else ""
            fields = {} if field is None else {field: getattr(action, given)}
            self.take(Happened(to=by, thread=thread, turn=turn, seq=value["seq"], kind=kind, fields=fields))

    def _repaired(self, action: Action, by: str, value: Any) -> None:
        """An audit finds what a killed process leaves, and what was damaged on purpose; each step is done or stale."""
        allowed = QUIET | (HARMED if action.thread in self.harmed else frozenset())
        self.wrong += [f"the audit found {one}" for one in value["findings"] if one["kind"] not in allowed]
        self.counts.update(f"found: {one['kind']}" for one in value["findings"])
        for what, outcome, detail in value["steps"]:
            self.counts[f"repair step: {what} {outcome}"] += 1
            self.counts["repaired"] += outcome == "done"
            if outcome == "failed":
                self.wrong.append(f"{what} failed for {by} in {action.thread}: {detail}")

    def _accepted(self, action: Action, by: str, value: Any) -> None:
        """P6: a key names one turn, whoever asks; a new turn is whoever's it was told to."""
        pair = (action.thread, value["turn"])
        if action.key is not None:
            before = self.turn_of.setdefault(action.key, value["turn"])
            if (asked := self.untold.pop(action.key, None)) is not None:
                self.newest_told.append(asked)
            if before != value["turn"] or (action.what == "again" and value["duplicate"] is False and self._told(pair)):
                self.wrong.append(f"P6: {action} by {by} became {value}, and was {before}")
        self.turns.begin(pair)
        if value["duplicate"] is False or (value["duplicate"] is None and pair not in self.owners):
            self.owners[pair] = by
            self._owned.setdefault(by, []).append(pair)
        content = action.content or self.contents.get((action.thread, action.turn))
        if content is not None:
            self.contents[pair] = content
            self.take(Accepted(to=by, thread=action.thread, turn=value["turn"], content=content, key=action.key))

    def _told(self, pair: tuple[str, str]) -> bool:
        return pair in self.owners


def fields_of(data: bytes) -> Any:
    """The fields of an event's body; a payload follows them."""
    return json.loads(data.split(b"\n", 1)[0])


def lacking(known: Known, least: int) -> list[str]:
    """What has not happened often enough for a run to prove anything."""
    return [name for name in MUST if known.counts[name] < least]

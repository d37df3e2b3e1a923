"""Clients' views of a thread and of its page, made of what they were sent alone."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..proof.facts import Fact, ShownDraft, ShownJson
from .frames import Frame
from .page.dom import Node, Page, parse

TERMINAL: Final = ("completed", "interrupted")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def segment(id_: str) -> str:
    """An id as a segment of a path, as docs/api.md says it."""
    if _PLAIN.fullmatch(id_) and id_ != "latest":
        return id_
    return "~" + base64.urlsafe_b64encode(id_.encode("utf-8", "surrogatepass")).decode().rstrip("=")


class Seen(NamedTuple):
    """A text that a page showed; `place` is the ids of what it stands in and of itself."""

    to: str
    place: str
    text: str


@dataclass
class Follower:
    """A client's view of one thread, made of frames alone. It lives longer than a connection, and than a server.

    `cursor` is the last id it saw. `ends` says how each connection ended: `bye`, `reset`, `dropped` (by the client) or
    `cut`. `wrong` is what a stream must not do.
    """

    thread: str
    name: str = "follower"
    cursor: str | None = None
    events: dict[int, Any] = field(default_factory=dict)
    drafts: dict[tuple[str, str], str] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    resets: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the stream is."""
        return f"/api/threads/{segment(self.thread)}/events"

    def take(self, frame: Frame) -> None:
        """Take a frame in, as a client would."""
        value = json.loads(frame.data)
        match frame.event:
            case "event":
                self._event(frame, value)
            case "draft":
                self._draft(frame, value)
            case "reset":
                self.resets.append(value)
                self.cursor, self.events, self.drafts = value["head"], {}, {}
            case "bye":
                pass
            case _:
                self.wrong.append(f"{self.name}: an unknown frame {frame}")

    def _event(self, frame: Frame, value: Any) -> None:
        seq, turn = value["seq"], value["turn"] or ""
        before = 0 if self.cursor is None else int(self.cursor.rpartition(".")[2])
        if seq != before + 1 or frame.id is None or not frame.id.endswith(f".{seq}"):
            self.wrong.append(f"{self.name}: seq {seq} with id {frame.id} after {self.cursor}")
        self.cursor = frame.id
        self.events[seq] = value
        for closed in value["body"].get("closes", ()):
            self.drafts.pop((turn, closed["draft"]), None)
        shown = ShownJson(thread=self.thread, turn=turn, seq=seq, kind=value["kind"], body=value["body"])
        self.facts.append(shown)

    def _draft(self, frame: Frame, value: Any) -> None:
        name = (value["turn"], value["draft"])
        before = self.drafts.get(name, "")
        if frame.id is not None or value["offset"] > len(before):
            self.wrong.append(f"{self.name}: {frame} after {len(before)} characters")
        self.drafts[name] = before[: value["offset"]] + value["text"]
        self.facts.append(
            ShownDraft(
                to=f"{self.name} {len(self.ends)}",
                thread=self.thread,
                turn=value["turn"],
                draft=value["draft"],
                after=value["after"],
                rev=None,
                offset=value["offset"],
                text=value["text"],
            )
        )

    @property
    def last(self) -> str:
        """What it was shown last, for who reads of a failure."""
        return "\n  ".join(map(str, self.facts[-20:]))

    def state(self, turn: str) -> str | None:
        """How a turn has ended, as far as this client knows."""
        ends = [event["kind"] for event in self.events.values() if event["turn"] == turn and event["kind"] in TERMINAL]
        return ends[0] if ends else None


@dataclass
class PageFollower:
    """A page of one thread as a browser has it: the document that was loaded, and what its stream made of it."""

    thread: str
    name: str = "page"
    shown: Page | None = None
    cursor: str | None = None
    seen: list[Seen] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    @property
    def page(self) -> str:
        """Where the page is."""
        return f"/t/{segment(self.thread)}"

    @property
    def url(self) -> str:
        """Where its stream is."""
        return f"{self.page}/stream"

    @property
    def last(self) -> str:
        """The end of what it shows, likewise."""
        return "" if self.shown is None else " ".join(self.shown.thread.text.split())[-2_000:]

    @property
    def content(self) -> object:
        """What the page shows of its thread, to be compared with another page."""
        assert self.shown is not None
        return [child.shown() if isinstance(child, Node) else child for child in self.shown.thread.children]

    def load(self, document: str) -> None:
        """The page was loaded."""
        self.shown = Page(document)
        self.cursor = self.shown.thread.attributes["data-at"]
        for turn in self.shown.thread.children:
            if isinstance(turn, Node):
                self._see("", turn)

    def take(self, frame: Frame) -> None:
        """Take a frame of the page's stream."""
        match frame.event:
            case "frag":
                self._apply(frame)
            case "reset":
                self.shown = self.cursor = None
            case "bye":
                pass
            case _:
                self.wrong.append(f"{self.name}: an unknown frame {frame}")

    def _apply(self, frame: Frame) -> None:
        assert self.shown is not None
        id_ = "" if frame.id is None else f"id: {frame.id}\n"
        try:
            self.shown.apply(f"{id_}event: frag\ndata: {frame.data}\n\n".encode())
        except AssertionError as error:
            self.wrong.append(f"{self.name}: {error} by {frame}")
        self.cursor = frame.id or self.cursor
        for verb, parent, *rest in json.loads(frame.data):
            if verb == "put":
                self._see(parent, parse(rest[1]))

    def _see(self, parent: str, node: Node) -> None:
        ids = [one.id for one in node.walk() if one.id is not None]
        text = " ".join(child for one in node.walk() for child in one.children if isinstance(child, str))
        self.seen.append(Seen(f"{self.name} {len(self.ends)}", f"{parent} {ids[0] if ids else ''}", text))

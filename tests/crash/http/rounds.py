"""What clients do with a server until it goes away, again and again on one store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ...proof.facts import Fact
from ...web.followers import TERMINAL, Follower, PageFollower, Seen
from ...web.recording import ACCEPTED, Client, following
from ...web.wire import Gone

ANSWERED: Final = "answered"
HALTED: Final = "../halted?/\u00e9"
"""A thread whose id is no segment of a path."""

LAST_DRAFT: Final = "0/~0/text/0"
"""The draft that a halting script says last."""

CONFLICT: Final = 409

ROUNDS: Final = 20
"""Rounds after which a server that was not killed is given up; no kill waits for that long."""


@dataclass(frozen=True)
class Asked:
    """A message that was sent, whether it was acknowledged or not. `turn` is what the acknowledgement named."""

    thread: str
    content: str
    key: str
    turn: str | None = None


@dataclass
class Clients:
    """All clients of one store: two tabs and two followers a thread, and what they know."""

    facts: list[Fact] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    followers: dict[str, Follower] = field(default_factory=dict)
    pages: dict[str, PageFollower] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    ended: dict[str, Any] = field(default_factory=dict)
    """The timelines of turns that had ended, as they were shown first."""

    @property
    def all_facts(self) -> list[Fact]:
        """What all of them know."""
        return [*self.facts, *(fact for follower in self.followers.values() for fact in follower.facts)]

    @property
    def everybody(self) -> list[Follower | PageFollower]:
        """All who have a connection of their own."""
        return [*self.followers.values(), *self.pages.values()]

    def shown(self, mark: str) -> bool:
        """Whether a follower has an open draft that begins so."""
        return any(text.startswith(mark) for one in self.followers.values() for text in one.drafts.values())

    def take_seen(self) -> list[Seen]:
        """What pages have shown since this was asked last."""
        seen = [piece for page in self.pages.values() for piece in page.seen]
        for page in self.pages.values():
            page.seen.clear()
        return seen

    @property
    def broken(self) -> list[str]:
        """What no server may do, whatever the store holds."""
        return [
            *self.wrong,
            *(problem for follower in self.followers.values() for problem in follower.wrong),
            *(problem for page in self.pages.values() for problem in page.wrong),
        ]


class Round:
    """What happens with one server."""

    def __init__(self, clients: Clients, client: Client, number: int) -> None:
        self._clients = clients
        self._client = client
        self._number = number
        self._watching = asyncio.Lock()

    async def play(self) -> None:
        """Reconnect everybody, ask again what was asked before, then play rounds until the server goes away."""
        await self._again()
        await self._compare()
        for round_ in range(ROUNDS):
            name = f"{self._number}.{round_}"
            async with asyncio.TaskGroup() as group:
                group.create_task(self._answered(name))
                group.create_task(self._halted(name))

    # --- who watches --------------------------------------------------------------------------------------------

    async def watch(self, thread: str) -> None:
        """Follow a thread that exists, each follower from where it was."""
        follower = self._clients.followers.setdefault(thread, Follower(thread, f"follower of {thread}"))
        page = self._clients.pages.setdefault(thread, PageFollower(thread, f"page of {thread}"))
        async with self._watching:
            if not self._client.follows(follower):
                self._client.follow(follower)
            if page.shown is None:
                await self._client.load(page)
            if not self._client.follows(page):
                self._client.follow(page)

    def follower(self, thread: str) -> Follower:
        """The follower of a thread."""
        return self._clients.followers[thread]

    async def _until_ended(self, thread: str, turn: str) -> None:
        await self._client.until(lambda: self.follower(thread).state(turn) is not None)

    # --- who asks -----------------------------------------------------------------------------------------------

    async def _ask(self, asked: Asked, **more: Any) -> Any:
        """Send a message; one that was acknowledged before must be the same turn."""
        known = self._clients.asked.setdefault(asked.key, asked)
        answer = await self._client.submit(asked.thread, asked.content, key=asked.key, **more)
        if answer.status != ACCEPTED:
            self._clients.wrong.append(f"{asked} was answered {answer}")
            raise Gone
        if known.turn not in (None, answer.value["turn"]) or (known.turn and not answer.value["duplicate"]):
            self._clients.wrong.append(f"P6: {known} became {answer.value}")
        self._clients.asked[asked.key] = Asked(asked.thread, asked.content, asked.key, answer.value["turn"])
        await self.watch(asked.thread)
        return answer.value

    async def _again(self) -> None:
        """C03 after a restart: every message of the server before once more; and what was interrupted is retried."""
        for asked in list(self._clients.asked.values()):
            if asked.key.startswith(f"key-{self._number - 1}."):
                answer = await self._ask(asked, when_busy="queue")
                if asked.content.startswith("halt"):
                    await self._stop(asked.thread, answer["turn"])
        for thread in list(self._clients.followers):
            await self._retry_last(thread)

    async def _stop(self, thread: str, turn: str) -> None:
        """Interrupt a turn, wherever it is, and see it end."""
        answer = await self._client.turn_action(thread, turn, "interrupt")
        if answer.status not in (ACCEPTED, CONFLICT):
            self._clients.wrong.append(f"the interrupt of {turn} was answered {answer}")
        await self._until_ended(thread, turn)

    async def _retry_last(self, thread: str) -> None:
        """P8: the last turn, if it was interrupted, is asked again by two at once, and becomes one turn."""
        await self.watch(thread)
        row = (await self._client.turns(thread))[0]
        if row["state"] != "interrupted" or row["preview"].startswith("halt"):
            return
        both = [self._client.turn_action(thread, row["turn"], "retry") for _ in range(2)]
        answers = await asyncio.gather(*both)
        if {answer.status for answer in answers} != {ACCEPTED} or len({one.value["turn"] for one in answers}) != 1:
            self._clients.wrong.append(f"P8: two retries of {row} were answered {answers}")
            raise Gone
        await self._until_ended(thread, answers[0].value["turn"])

    async def _answered(self, name: str) -> None:
        """A turn with everything in it, asked by three at once, and with other words; it ends by itself."""
        asked = Asked(ANSWERED, f"answer a{name}\x00\u2028\ud800", f"key-{name}-a")
        answers = await asyncio.gather(*(self._ask(asked, when_busy="queue") for _ in range(3)))
        first = [answer for answer in answers if not answer["duplicate"]]
        if len({answer["turn"] for answer in answers}) != 1 or len(first) != 1:
            self._clients.wrong.append(f"C03: three at once were answered {answers}")
        await self._conflict(asked)
        turn = answers[0]["turn"]
        await self._until_ended(ANSWERED, turn)
        await self._look(ANSWERED, turn)

    async def _conflict(self, asked: Asked) -> None:
        """C04: the same key with other content is refused with both digests."""
        answer = await self._client.submit(asked.thread, asked.content + " more", key=asked.key, when_busy="queue")
        digests = {answer.value.get("stored_digest"), answer.value.get("given_digest")}
        if answer.status != CONFLICT or len(digests) != 2 or None in digests:
            self._clients.wrong.append(f"C04: other content was answered {answer}")

    async def _halted(self, name: str) -> None:
        """A turn that does not end, another that waits behind it; it is stopped, and the other one runs."""
        halted = await self._ask(Asked(HALTED, f"halt h{name}", f"key-{name}-h"), when_busy="queue", by_page=True)
        waiting = await self._ask(Asked(HALTED, f"brief q{name}", f"key-{name}-q"), when_busy="queue")
        last = (halted["turn"], LAST_DRAFT)
        await self._client.until(lambda: f"h{name}: Without" in self.follower(HALTED).drafts.get(last, ""))
        await self._look(HALTED, halted["turn"])
        await self._stop(HALTED, halted["turn"])
        await self._until_ended(HALTED, waiting["turn"])

    async def _look(self, thread: str, turn: str) -> None:
        """Read the documents of a turn; those of one that has ended never change."""
        await self._client.transcript(thread)
        document = await self._client.timeline(thread, turn)
        if document["turn"]["state"] in TERMINAL:
            before = self._clients.ended.setdefault(turn, document["entries"])
            if before != document["entries"]:
                self._clients.wrong.append(f"P9: the timeline of {turn} has changed")

    async def settle(self) -> None:
        """Reconnect everybody, and wait until nothing is open."""
        await self._again()
        for thread in self._clients.followers:
            for row in await self._client.turns(thread):
                await self._until_ended(thread, row["turn"])
                await self._look(thread, row["turn"])
        await self._compare()

    async def _compare(self) -> None:
        """P9: while nothing runs, who followed through all deaths has what somebody has who comes now."""
        for thread, follower in self._clients.followers.items():
            new, head = Follower(thread, "a new follower"), max(follower.events)
            async with following(self._client, new):
                await self._client.until(lambda: head in new.events)  # noqa: B023
            if (new.events, new.drafts) != (follower.events, follower.drafts) or new.drafts:
                self._clients.wrong.append(f"P9: {follower.name} has {follower}, and a new one {new}")
            fresh = PageFollower(thread, "a new page")
            await self._client.load(fresh)
            await self._client.until(same(self._clients.pages[thread], fresh))


def same(page: PageFollower, fresh: PageFollower) -> Callable[[], bool]:
    """Whether a page shows what a fresh one does. Its cursor may be behind: what changes nothing to see is not sent."""
    return lambda: page.content == fresh.content

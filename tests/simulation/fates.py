"""What happens to the processes of a random mix: they are killed, stopped and told to end, at random instants."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from random import Random
from typing import Any, Final

from .commands import Commands
from .drawing import SOON, Drawing
from .known import Known, lacking
from .plan import LEASE_WAIT_S, ROLES, Scale
from .process import Process
from .roles import Role
from .turns import Pair

SETTLED_WAIT_S: Final = 40.0
"""Seconds for the turns of a killed process to be ended by others: a lease and a stopped process in between, on a busy
machine."""

QUIET_S: Final = 2.0
"""Seconds after which something is killed or stopped although little was done."""

FIRST: Final = 0.7
"""The chance of a fate that is lacking to go first, from the beginning: together they take half of a short run."""

Fate = Callable[[Role, Process, Random], Awaitable[None]]


class Fates:
    """One process after the other meets its fate."""

    def __init__(self, known: Known, scale: Scale, roles: Mapping[str, Role], drawing: Drawing) -> None:
        self._known = known
        self._scale = scale
        self._roles = roles
        self._drawing = drawing
        self._deck: list[tuple[Fate, str]] = []

    async def meet(self, random: Random, late: float) -> Coroutine[Any, Any, None] | None:
        """Let a process meet its fate; what is given waits for what must come of it.

        Each kind of fate of each role comes in its turn; but what is lacking goes first, see `Drawing.draw`.
        """
        await self._others_do(random.randint(1, 12), QUIET_S)
        fate, name = self._next(random, late)
        role = self._roles[name]
        process = await self._running(role)
        if process is None:
            await self._lost_one(role)
            return None
        await fate(role, process, random)
        return self._must_end(process) if fate == self._kill else None

    def _next(self, random: Random, late: float) -> tuple[Fate, str]:
        lack = self._lacking()
        if lack and random.random() < max(FIRST, late * SOON):
            return random.choice(random.choice(lack))
        if not self._deck:
            fates = (self._kill, self._pause, self._stop_long, self._restart)
            self._deck = [(fate, name) for fate in fates for name in ROLES]
            random.shuffle(self._deck)
        return self._deck.pop()

    def _lacking(self) -> list[list[tuple[Fate, str]]]:
        """For each that is lacking, all that may bring it about."""
        means: dict[str, list[tuple[Fate, str]]] = {
            "taken over": [(self._stop_long, name) for name in ROLES],
            "interrupted process_died": [(self._kill, name) for name in ROLES],
            **{f"{name}: killed": [(self._kill, name)] for name in ROLES},
            **{f"{name}: paused": [(self._pause, name)] for name in ROLES},
        }
        return [means[lack] for lack in lacking(self._known, self._scale.least) if lack in means]

    async def _running(self, role: Role) -> Process | None:
        """The process to which something can happen; a command is waited for."""
        if isinstance(role, Commands):
            await self._known.until(lambda: bool(role.running), QUIET_S)
            return next(reversed(role.running), None)
        return None if role.process is None or role.process.ended.is_set() else role.process

    async def _lost_one(self, role: Role) -> None:
        """A process that ends by itself is no part of the plan, but of commands."""
        process = role.process
        if isinstance(role, Commands) or process is None or not process.ended.is_set():
            return
        self._known.wrong.append(f"{process.name} ended by itself with {process.code}: {process.last_words()}")
        await role.start(self._drawing.there())

    async def _kill(self, role: Role, process: Process, random: Random) -> None:
        await _ends_within(process, random.uniform(0, 0.3))
        await role.kill()
        self._known.counts[f"{role.name}: killed"] += process.code == -signal.SIGKILL
        await role.start(self._drawing.there())

    async def _must_end(self, process: Process) -> None:
        """P8: the turns of who was killed are ended by whoever is there."""
        left = self._known.running_by(process.name)
        if not await self._known.until(lambda: self._known.all_ended(left), SETTLED_WAIT_S):
            stuck = self._known.running_by(process.name)
            self._known.wrong.append(f"P8: {process.name} was killed, and its turns {stuck} do not end")

    async def _pause(self, role: Role, process: Process, random: Random) -> None:
        """Stopped for less than the lease: nothing is lost."""
        process.signal(signal.SIGSTOP)
        await self._others_do(random.randint(1, 5), LEASE_WAIT_S / 4)
        process.signal(signal.SIGCONT)
        self._known.counts[f"{role.name}: paused"] += 1

    async def _stop_long(self, role: Role, process: Process, random: Random) -> None:
        """Stopped for longer than the lease: its running turns are taken over, unless it holds the store."""
        if role.ready.is_set() and not role.busy:
            process = await self._begin(role, process, random)
        left: list[Pair] = self._known.running_by(process.name)
        process.signal(signal.SIGSTOP)
        taken = await self._known.until(lambda: bool(left) and self._known.all_ended(left), LEASE_WAIT_S * 1.7)
        process.signal(signal.SIGCONT)
        self._known.counts[f"{role.name}: stopped for long"] += 1
        self._known.counts["taken over"] += taken

    async def _begin(self, role: Role, process: Process, random: Random) -> Process:
        """Have a role in the middle of an answer; the process that answers."""
        turns = self._known.turns
        thread = min(self._drawing.threads[1:], key=lambda thread: len(turns.open(thread)))
        kind = "halt" if isinstance(role, Commands) else "answer"
        action = self._drawing.submit(role.name, thread, random, kind=kind)
        await role.do(action)
        pair = (action.thread, self._known.turn_of.get(str(action.key), ""))
        await self._known.until(lambda: pair in self._known.speaking or self._known.all_ended([pair]), QUIET_S)
        owner = self._known.owners.get(pair)
        return next((one for one in role.processes if one.name == owner), process)

    async def _restart(self, role: Role, process: Process, random: Random) -> None:
        await end_well(role, self._known)
        self._known.counts[f"{role.name}: ended well"] += 1
        await role.start(self._drawing.there())

    async def _others_do(self, number: int, seconds: float) -> None:
        enough = len(self._known.deeds) + number
        await self._known.until(lambda: len(self._known.deeds) >= enough, seconds)


async def end_well(role: Role, known: Known) -> None:
    """A process that is told to end does. One that does not is made to tell where it stands."""
    try:
        await role.stop_well()
    except TimeoutError:
        for process in role.processes:
            if not process.ended.is_set():
                process.signal(signal.SIGABRT)
                await process.end()
                known.wrong.append(f"{process.name} does not end: {process.last_words()}")
        await role.kill()


async def _ends_within(process: Process, seconds: float) -> None:
    """Let a random time pass, or less if the process ends by itself."""
    try:
        async with asyncio.timeout(seconds):
            await process.ended.wait()
    except TimeoutError:
        return

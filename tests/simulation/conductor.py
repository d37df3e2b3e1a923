"""The conductor of a random mix: it has three kinds of processes do things on one store, and lets them meet their fate.

What is drawn is the seed's; what it meets is the moment's, so that the same seed gives the same kind of run, not the
same run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Final

from .commands import Commands
from .drawing import Drawing, changed
from .fates import SETTLED_WAIT_S, Fates, end_well
from .harming import harm
from .known import DONE, LOST, Known, lacking
from .plan import ALLOWED, BEYOND, ROLES, Action, Scale
from .roles import Library, Role
from .serving import Server

AT_ONCE: Final = 3
"""Actions that one role does at a time."""

STORE_BUSY: Final = "store-busy"


class Mix:
    """One run on the store in `folder`."""

    def __init__(self, seed: str, scale: Scale, folder: Path) -> None:
        self.known = Known()
        self._seed = seed
        self._scale = scale
        self._folder = folder
        self._over = asyncio.Event()
        self._began = 0.0
        self._server = Server(self.known, folder)
        others: tuple[Role, ...] = (Library(self.known, folder), Commands(self.known, folder))
        self._roles: dict[str, Role] = {role.name: role for role in (self._server, *others)}
        self._drawing = Drawing(self.known, scale)
        self._fates = Fates(self.known, scale, self._roles, self._drawing)

    async def play(self) -> None:
        """Begin all processes, let them act for the time of the scale, and end them, well or not."""
        try:
            await self._play()
            await self._calm()
            await self._end(Random(f"{self._seed} end"))
        finally:
            for role in self._roles.values():
                await role.kill()

    async def _play(self) -> None:
        for role in self._roles.values():
            await role.start(self._drawing.there())
        self._began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for name in ROLES:
                for n in range(AT_ONCE):
                    group.create_task(self._act(name, Random(f"{self._seed} {name} {n}")))
            group.create_task(self._fate(Random(f"{self._seed} fate"), group))
            await self.known.until(self._over.is_set, self._scale.seconds)
            self.known.lacked = lacking(self.known, self._scale.least)
            await self.known.until(lambda: not lacking(self.known, self._scale.least), self._scale.seconds * BEYOND)
            self._over.set()

    @property
    def _late(self) -> float:
        """The part of the time that is over."""
        return (asyncio.get_running_loop().time() - self._began) / self._scale.seconds

    # --- acting -------------------------------------------------------------------------------------------------

    async def _act(self, name: str, random: Random) -> None:
        """One thing after the other, by one role."""
        role = self._roles[name]
        while not self._over.is_set():
            action = self._drawing.draw(name, random, asking=not role.busy, late=self._late)
            if action is None:
                await self.known.until(self._over.is_set, 0.1)
            elif action.what == "decide":
                await self._decide(name, action, random)
            elif action.what == "repair":
                await self._repair(role, action, random)
            elif action.what == "fork":
                if await role.do(action) == DONE:
                    self._drawing.forked(action.text)
            else:
                await role.do(action)
            await self._listen()

    async def _fate(self, random: Random, group: asyncio.TaskGroup) -> None:
        """Kill or stop one process after the other; what must come of it is waited for beside."""
        while not self._over.is_set():
            later = await self._fates.meet(random, self._late)
            await self._listen()
            if later is not None:
                group.create_task(later)

    async def _listen(self) -> None:
        """Whatever can follows what people talk in, and where a turn is open."""
        for role in self._roles.values():
            for thread in self._drawing.there():
                if role.ready.is_set():
                    await role.listen(thread)

    async def _decide(self, name: str, action: Action, random: Random) -> None:
        """Often two decide the same at once, each in its way: one is first. A command is slow, and seldom the other."""
        self.known.waiting.pop((action.thread, action.turn, action.text), None)
        other = random.choices(ROLES, [4, 4, 1])[0]
        both = {name, other} if random.random() < 0.6 and self._roles[other].ready.is_set() else {name}
        await asyncio.gather(*(self._roles[one].do(changed(action, value=f"by {one}")) for one in sorted(both)))

    async def _repair(self, role: Role, action: Action, random: Random) -> None:
        """Mostly something was damaged before, in what is made of the events, of a thread that is left in peace."""
        if self._drawing.left and random.random() < 0.7:
            action = changed(action, thread=random.choice(self._drawing.left))
            self.known.harmed |= {action.thread, *self._drawing.unfinished(action.thread)}
            self.known.counts["damaged"] += await harm(self._folder, action.thread)
        await role.do(action)

    # --- ending -------------------------------------------------------------------------------------------------

    async def _calm(self) -> None:
        """P8: all processes live, every turn is asked to end, and every turn does. P9: then all pages are the same."""
        await self._listen()
        for thread, turn in self.known.turns.open():
            await self._server.do(Action(what="interrupt", thread=thread, turn=turn))
        if not await self.known.until(lambda: not self.known.turns.open(), SETTLED_WAIT_S):
            self.known.wrong.append(f"P8: stuck are {self.known.turns.open()}")
        await self._server.compare(self._drawing.there())

    async def _end(self, random: Random) -> None:
        """Half of them end well, the others are killed."""
        for role in self._roles.values():
            if isinstance(role, Commands) or (role.process is not None and not role.process.ended.is_set()):
                await (end_well(role, self.known) if random.random() < 0.5 else role.kill())
        # P8: who is stopped in the middle of a commit holds the store, and who waits too long for it is told so.
        stops = sum(self.known.counts[f"{name}: stopped for long"] for name in ROLES)
        if (busy := sum(deed.outcome == STORE_BUSY for deed in self.known.deeds)) > stops:
            self.known.wrong.append(f"P8: the store was busy {busy} times, and {stops} times a process stood still")
        for deed in self.known.deeds:
            if deed.outcome not in (DONE, LOST, STORE_BUSY, *ALLOWED[deed.action.what]):
                self.known.wrong.append(f"{deed.action} by {deed.by} was answered {deed.outcome}: {deed.value}")
            if deed.action.what == "conflict" and deed.outcome == DONE:
                self.known.wrong.append(f"C04: other content was taken: {deed}")
        self.known.wrong += [problem for follower in self._server.followers.values() for problem in follower.wrong]

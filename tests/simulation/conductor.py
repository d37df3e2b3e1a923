"""The conductor of a random mix: it has three kinds of processes do things on one store, and lets them meet their fate.

What is drawn is the seed's; what it meets is the moment's, so that the same seed gives the same kind of run, not the
same run.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from .commands import Commands
from .harming import harm
from .known import DONE, LOST, TERMINAL, Known, lacking
from .plan import (
    ALLOWED,
    BUSY,
    CAN,
    KINDS,
    LEASE_WAIT_S,
    ROLES,
    THREADS,
    TURNS_A_THREAD,
    WEIGHTS,
    Action,
    Scale,
    chosen,
)
from .process import Process
from .roles import Library, Role, Server

AT_ONCE: Final = 3
"""Actions that one role does at a time."""

CALM: Final = frozenset({"truncate", "edit", "fork", "compact"})
"""What is refused while a turn is open is done where none is; in the first thread people talk less than elsewhere."""

COMMANDS_AT_ONCE: Final = 2
ASKING: Final = frozenset({"submit", "again", "conflict", "retry"})

SETTLED_WAIT_S: Final = 40.0
"""Seconds for the turns of a killed process to be ended by others: a lease and a stopped process in between, on a busy
machine."""

QUIET_S: Final = 2.0
"""Seconds after which something is killed or stopped although little was done."""

ENDLESS: Final = ("halt", "talk", "words", "call")
"""Scripts that end when somebody ends them."""


class Mix:
    """One run on the store in `folder`."""

    def __init__(self, seed: str, scale: Scale, folder: Path) -> None:
        self.known = Known()
        self._seed = seed
        self._scale = scale
        self._threads = [f"t{n}" for n in range(THREADS)]
        self._begun = THREADS
        self._names = 0
        self._folder = folder
        self._left: list[str] = []
        self._over = asyncio.Event()
        kinds: dict[str, type[Role]] = {"library": Library, "server": Server, "command": Commands}
        self._roles = {name: kinds[name](self.known, folder) for name in ROLES}

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
            await role.start(self._there())
        async with asyncio.TaskGroup() as group:
            for name in ROLES:
                for n in range(AT_ONCE):
                    group.create_task(self._act(name, Random(f"{self._seed} {name} {n}")))
            group.create_task(self._fate(Random(f"{self._seed} fate")))
            await self.known.until(self._over.is_set, self._scale.seconds)
            await self.known.until(lambda: not lacking(self.known, self._scale.least), self._scale.seconds)
            self._over.set()

    # --- acting -------------------------------------------------------------------------------------------------

    async def _act(self, name: str, random: Random) -> None:
        """One thing after the other, by one role."""
        while not self._over.is_set():
            action = self._draw(name, random)
            if action is None:
                await self.known.until(self._over.is_set, 0.1)
            elif action.what == "decide":
                await self._decide(action, random)
            elif action.what == "repair":
                await self._repair(name, action, random)
            elif action.what == "fork":
                await self._fork(action)
            else:
                await self._roles[name].do(action)
            await self._listen()

    async def _listen(self) -> None:
        """Whatever can follows what people talk in, and where a turn is open."""
        for role in self._roles.values():
            for thread in self._there():
                if role.ready.is_set():
                    await role.listen(thread)

    def _there(self) -> list[str]:
        open_in = [thread for thread, _ in self.known.open_turns()]
        return [*dict.fromkeys([*(thread for thread in self._threads if self._exists(thread)), *open_in])]

    async def _decide(self, action: Action, random: Random) -> None:
        """Two who decide the same at once, each in its way: one of them is first."""
        self.known.waiting.pop((action.thread, action.turn, action.text), None)
        others = random.sample(ROLES, 2)
        both = [_valued(action, f"by {other}") for other in others]
        await asyncio.gather(*(self._roles[other].do(one) for other, one in zip(others, both, strict=True)))

    async def _repair(self, name: str, action: Action, random: Random) -> None:
        """Mostly something was damaged before, in what is made of the events, of a thread that is left in peace."""
        if self._left and random.random() < 0.7:
            action = _copied(action, thread=random.choice(self._left))
            self.known.harmed.add(action.thread)
            self.known.counts["damaged"] += await harm(self._folder, action.thread)
        await self._roles[name].do(action)

    async def _fork(self, action: Action) -> None:
        """People go on talking in a fork, in the place of the thread that they have talked in longest."""
        await self._roles["library"].do(action)
        done = any(deed.action is action and deed.outcome == DONE for deed in self.known.deeds[-50:])
        if done and action.text not in (*self._threads, *self._left):
            self._leave(self._threads[0])
            self._threads[-1] = action.text

    def _draw(self, name: str, random: Random) -> Action | None:
        """What a role does next; None when what was drawn makes no sense now."""
        can = CAN[name] - ASKING if self._is_busy(self._roles[name]) else CAN[name]
        what = chosen(random, {what: weight for what, weight in WEIGHTS.items() if what in can})
        thread = random.choice(self._threads)
        calm = [thread for thread in self._threads if self._exists(thread) and not self.known.open_turns(thread)]
        if what in CALM and calm:
            thread = random.choice(calm)
        draws: dict[str, Callable[[], Action | None]] = {
            "submit": lambda: self._submit(name, random.choice(self._threads[random.random() < 0.9 :]), random),
            "again": lambda: self._again(name, random),
            "conflict": lambda: self._conflict(random),
            "interrupt": lambda: self._interrupt(random),
            "decide": lambda: self._approval(random),
            "retry": lambda: self._retry(thread, random),
            "truncate": lambda: self._of_turn("truncate", thread, random),
            "edit": lambda: self._edit(name, thread, random),
            "fork": lambda: self._forking(thread, random),
        }
        if what in draws:
            return draws[what]()
        if not self._exists(thread):
            return None
        self._names += 1
        return Action(what=what, thread=thread, text=f"n{self._names}", value=random.random() < 0.5)

    def _of_turn(self, what: str, thread: str, random: Random) -> Action | None:
        """Something about one of the last turns that have ended."""
        ended = [turn for (of, turn), state in self.known.turns.items() if of == thread and state in TERMINAL]
        return Action(what=what, thread=thread, turn=random.choice(ended[-4:])) if ended else None

    def _edit(self, name: str, thread: str, random: Random) -> Action | None:
        """A message takes the place of another one."""
        edited = self._of_turn("edit", thread, random)
        if edited is None:
            return None
        submission = self._submit(name, thread, random)
        action = _copied(submission, what="edit", turn=edited.turn)
        self.known.asked[str(action.key)] = action
        return action

    def _forking(self, thread: str, random: Random) -> Action | None:
        """A copy of a thread; or one that was asked for before, by somebody who may have died over it."""
        before = [deed.action for deed in self.known.deeds if deed.action.what == "fork"]
        if before and random.random() < 0.3:
            return random.choice(before[-5:])
        action = self._of_turn("fork", thread, random)
        self._names += 1
        return (
            None if action is None else _copied(action, text=f"f{self._names}", turn=random.choice(("", action.turn)))
        )

    @staticmethod
    def _is_busy(role: Role) -> bool:
        """Whether so many commands run that no other one may ask something."""
        return isinstance(role, Commands) and len(role.running) >= COMMANDS_AT_ONCE

    def _exists(self, thread: str) -> bool:
        return any(pair[0] == thread for pair in self.known.turns)

    def _submit(self, name: str, thread: str, random: Random, kind: str | None = None) -> Action:
        kind = kind or chosen(random, {kind: n for kind, n in KINDS.items() if (name, kind) != ("command", "answer")})
        self._names += 1
        content = f"{kind} {kind[0]}{self._names}.0" + "\x00\u2028\ud800" * (kind == "answer")
        key = f"key-{self._names}"
        self._renew(thread)
        action = Action(what="submit", thread=thread, content=content, key=key, when_busy=chosen(random, BUSY))
        self.known.asked[key] = action
        return action

    def _renew(self, thread: str) -> None:
        """A thread with enough turns gives its place to another one."""
        if sum(pair[0] == thread for pair in self.known.turns) < TURNS_A_THREAD or thread not in self._threads:
            return
        self._leave(thread)

    def _leave(self, thread: str) -> None:
        """Another thread is begun in the place of this one, which comes last."""
        fresh = f"t{self._begun}" if self._begun % 3 else f"../t {self._begun}?"
        self._begun += 1
        self._threads.remove(thread)
        self._threads.append(fresh)
        if self._exists(thread):
            self._left.append(thread)

    def _again(self, name: str, random: Random) -> Action | None:
        """A message is sent again, often one whose answer was lost, with the same key."""
        asked = [one for one in self.known.asked.values() if name != "command" or "\x00" not in one.content]
        lost = [one for one in asked if one.key not in self.known.turn_of]
        asked = lost if lost and random.random() < 0.7 else asked[-50:]
        return _copied(random.choice(asked), what="again", when_busy="queue") if asked else None

    def _conflict(self, random: Random) -> Action | None:
        """The same key with other words."""
        known = [one for key, one in self.known.asked.items() if key in self.known.turn_of]
        if not known:
            return None
        one = random.choice(known[-50:])
        return _copied(one, what="conflict", content=f"brief x{one.key}", when_busy="queue")

    def _interrupt(self, random: Random) -> Action | None:
        """Mostly a turn that does not end by itself."""
        turns = self.known.open_turns()
        endless = [pair for pair in turns if str(self.known.contents.get(pair)).startswith(ENDLESS)]
        if not turns:
            return None
        thread, turn = random.choice(endless if endless and random.random() < 0.8 else turns)
        return Action(what="interrupt", thread=thread, turn=turn)

    def _approval(self, random: Random) -> Action | None:
        waiting = [one for one in self.known.waiting if self.known.turns.get(one[:2]) == "open"]
        if not waiting:
            return None
        thread, turn, approval = random.choice(waiting)
        return Action(what="decide", thread=thread, turn=turn, text=approval)

    def _retry(self, thread: str, random: Random) -> Action | None:
        ended = [pair for pair, state in self.known.turns.items() if state == "interrupted" and pair[0] == thread]
        return Action(what="retry", thread=thread, turn=random.choice(ended[-6:])[1]) if ended else None

    # --- fate ---------------------------------------------------------------------------------------------------

    async def _fate(self, random: Random) -> None:
        """Kill or stop one process after the other, at random instants: each kind of fate of each role in its turn."""
        while not self._over.is_set():
            deck = [
                (fate, name) for fate in (self._kill, self._pause, self._stop_long, self._restart) for name in ROLES
            ]
            random.shuffle(deck)
            for fate, name in deck:
                await self._others_do(random.randint(1, 12), QUIET_S)
                role = self._roles[name]
                if self._over.is_set():
                    return
                if role.process is None or role.process.ended.is_set():
                    await self._lost_one(role)
                else:
                    await fate(role, role.process, random)

    async def _lost_one(self, role: Role) -> None:
        """A process that ends by itself is no part of the plan, but of commands."""
        process = role.process
        if isinstance(role, Commands) or process is None or not process.ended.is_set():
            return
        self.known.wrong.append(f"{process.name} ended by itself with {process.code}: {process.last_words()}")
        await role.start(self._there())

    async def _kill(self, role: Role, process: Process, random: Random) -> None:
        """P8: the turns of who is killed are ended by whoever is there."""
        await _ends_within(process, random.uniform(0, 0.3))
        await role.kill()
        self.known.counts[f"{role.name}: killed"] += process.code == -signal.SIGKILL
        left = [pair for pair, owner in self.known.owners.items() if owner == process.name]
        await role.start(self._there())
        await self._listen()
        await self._must_end(left, process)

    async def _must_end(self, left: list[tuple[str, str]], process: Process) -> None:
        if not await self.known.until(lambda: self.known.all_ended(left), SETTLED_WAIT_S):
            stuck = [pair for pair in left if self.known.turns.get(pair) not in TERMINAL]
            self.known.wrong.append(f"P8: {process.name} was killed, and its turns {stuck} do not end")

    async def _pause(self, role: Role, process: Process, random: Random) -> None:
        """Stopped for less than the lease: nothing is lost."""
        process.signal(signal.SIGSTOP)
        await self._others_do(random.randint(1, 5), LEASE_WAIT_S / 4)
        process.signal(signal.SIGCONT)
        self.known.counts[f"{role.name}: paused"] += 1

    async def _stop_long(self, role: Role, process: Process, random: Random) -> None:
        """Stopped for longer than the lease: its running turns are taken over, unless it holds the store."""
        if role.ready.is_set() and not self._is_busy(role):
            await self._begin(role, random)
        process = role.process or process
        left = [pair for pair, owner in self.known.owners.items() if owner == process.name]
        left = [pair for pair in left if self.known.turns.get(pair) not in TERMINAL]
        process.signal(signal.SIGSTOP)
        taken = await self.known.until(lambda: bool(left) and self.known.all_ended(left), LEASE_WAIT_S * 1.7)
        process.signal(signal.SIGCONT)
        self.known.counts[f"{role.name}: stopped for long"] += 1
        self.known.counts["taken over"] += taken

    async def _begin(self, role: Role, random: Random) -> None:
        """Have a role in the middle of an answer."""
        thread = min(self._threads, key=lambda thread: len(self.known.open_turns(thread)))
        action = self._submit(role.name, thread, random, kind="halt" if isinstance(role, Commands) else "answer")
        await role.do(action)
        pair = (action.thread, self.known.turn_of.get(str(action.key), ""))
        await self.known.until(lambda: pair in self.known.speaking or self.known.all_ended([pair]), QUIET_S)

    async def _restart(self, role: Role, process: Process, random: Random) -> None:
        await self._end_well(role)
        self.known.counts[f"{role.name}: ended well"] += 1
        await role.start(self._there())

    async def _others_do(self, number: int, seconds: float) -> None:
        enough = len(self.known.deeds) + number
        await self.known.until(lambda: len(self.known.deeds) >= enough, seconds)

    async def _calm(self) -> None:
        """P8: all processes live, every turn is asked to end, and every turn does."""
        await self._listen()
        for thread, turn in self.known.open_turns():
            await self._roles["server"].do(Action(what="interrupt", thread=thread, turn=turn))
        if not await self.known.until(lambda: not self.known.open_turns(), SETTLED_WAIT_S):
            self.known.wrong.append(f"P8: stuck are {self.known.open_turns()}")

    async def _end_well(self, role: Role) -> None:
        """A process that is told to end does."""
        try:
            await role.stop_well()
        except TimeoutError:
            self.known.wrong.append(f"{role.name} does not end: {role.process and role.process.last_words()}")
            await role.kill()

    async def _end(self, random: Random) -> None:
        """Half of them end well, the others are killed."""
        for role in self._roles.values():
            if isinstance(role, Commands) or (role.process is not None and not role.process.ended.is_set()):
                await (self._end_well(role) if random.random() < 0.5 else role.kill())
        for deed in self.known.deeds:
            if deed.outcome not in (DONE, LOST) and deed.outcome not in ALLOWED[deed.action.what]:
                self.known.wrong.append(f"{deed.action} by {deed.by} was answered {deed.outcome}: {deed.value}")
            if deed.action.what == "conflict" and deed.outcome == DONE:
                self.known.wrong.append(f"C04: other content was taken: {deed}")
        for role in self._roles.values():
            if isinstance(role, Server):
                self.known.wrong += [problem for follower in role.followers.values() for problem in follower.wrong]


async def _ends_within(process: Process, seconds: float) -> None:
    """Let a random time pass, or less if the process ends by itself."""
    try:
        async with asyncio.timeout(seconds):
            await process.ended.wait()
    except TimeoutError:
        return


def _copied(action: Action, **changed: str) -> Action:
    return Action(**{**{name: getattr(action, name) for name in action.__struct_fields__}, **changed})


def _valued(action: Action, value: str) -> Action:
    return _copied(action, value=value)

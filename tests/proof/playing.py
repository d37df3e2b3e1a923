"""Playing scripts through the real runner, with a reader that follows, and an account of all that became known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from turnlog.agents.protocol import Emit, Finish, ItemSignal, StepSignal, Task
from turnlog.events.kinds import Draft, Event
from turnlog.journal.log import Log
from turnlog.runner import run_turn

from .facts import Accepted, Account, Began, Decided, Ended, ShownDraft, ShownEvent, Stepped, Wrote
from .scripts import Act, Ask, Effect, Halt, Said, Script, raw_of

WAIT_S = 60.0
"""Seconds to wait for anything here; a healthy run needs a second or two in all."""

Do = Callable[[Script, Effect], None]


class Reader:
    """Follows threads, and accounts for each frame when it has it."""

    def __init__(self, log: Log, account: Account) -> None:
        self._log = log
        self._account = account
        self._news = asyncio.Event()
        self.heads: dict[str, int] = {}
        self.texts: dict[tuple[str, str, str], str] = {}

    async def read(self, thread: str) -> None:
        """Follow a thread from its beginning until the log is closed."""
        async for frame in self._log.follow(thread):
            self._take(thread, frame)
            self._news.set()

    def _take(self, thread: str, frame: Event | Draft) -> None:
        if isinstance(frame, Event):
            self.heads[thread] = frame.seq
            shown = ShownEvent(thread=thread, turn=frame.turn or "", seq=frame.seq, kind=frame.kind, data=frame.data)
            self._account.add(shown)
            return
        name = (thread, frame.turn, frame.draft)
        self.texts[name] = self.texts.get(name, "")[: frame.offset] + frame.text
        self._account.add(
            ShownDraft(
                thread=thread,
                turn=frame.turn,
                draft=frame.draft,
                after=frame.after,
                rev=frame.rev,
                offset=frame.offset,
                text=frame.text,
            )
        )

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Return once `wanted` is true of what was read."""
        async with asyncio.timeout(WAIT_S):
            while not wanted():
                self._news.clear()
                await self._news.wait()


class Player:
    """An agent that plays a script. A `patient` one goes on when the reader has seen what it said."""

    name = "player"
    version = "1"

    def __init__(self, script: Script, account: Account, reader: Reader, *, patient: bool, do: Do) -> None:
        self._script = script
        self._account = account
        self._reader = reader
        self._patient = patient
        self._do = do
        self._said: dict[str, str] = {}
        self.halted = asyncio.Event()

    async def run(self, task: Task, emit: Emit) -> Finish:
        """See `Agent`."""
        script = self._script
        self._account.add(Began(thread=script.thread, turn=script.turn))
        for act in script.acts:
            if isinstance(act, Finish):
                return act
            if isinstance(act, Ask):
                await self._ask(act, task)
            else:
                await self._play(act, emit)
        return Finish()

    async def _ask(self, ask: Ask, task: Task) -> None:
        """Wait until somebody has decided."""
        async for request in task.requests:
            if request.what == "decide" and request.approval == ask.approval:
                self._account.add(
                    Decided(thread=task.thread, turn=task.turn, approval=ask.approval, value=request.value)
                )
                return
        raise AssertionError("the turn ended, and the agent waits for a decision")

    async def _play(self, act: Act, emit: Emit) -> None:
        thread, turn = self._script.thread, self._script.turn
        match act:
            case Said():
                await self._say(act, emit)
            case Effect():
                self._do(self._script, act)
            case Halt():
                self.halted.set()
                await asyncio.Event().wait()
            case Finish() | Ask():
                raise AssertionError("the end and what a person is asked are played by run")
            case _:
                await emit(act)
                if isinstance(act, ItemSignal):
                    self._account.add(Wrote(thread=thread, turn=turn, raw=raw_of(act)))
                elif isinstance(act, StepSignal):
                    self._account.add(Stepped(thread=thread, turn=turn, step=act.id, status=act.status))

    async def _say(self, said: Said, emit: Emit) -> None:
        await emit(said.signal)
        whole = self._said[said.draft] = self._said.get(said.draft, "") + said.text
        if not self._patient or said.hurried:
            return
        name = (self._script.thread, self._script.turn, said.draft)
        # Half a character is written with its other half; two halves are one character then.
        length = len(whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")) - (
            whole[-1:] >= "\ud800" and whole[-1:] <= "\udbff"
        )
        await self._reader.until(lambda: len(self._reader.texts.get(name, "")) >= length)


class Stage:
    """Several scripts played at once. `failures` holds what ended a turn's runner."""

    def __init__(self, log: Log, account: Account, *, patient: bool, do: Do) -> None:
        self._log = log
        self._account = account
        self._patient = patient
        self._do = do
        self.reader = Reader(log, account)
        self.failures: list[BaseException] = []

    async def play(self, script: Script, over: asyncio.Event) -> None:
        """Submit and run one script; `over` is set when it has ended, halted or failed."""
        try:
            await self._play(script, over)
        except Exception as error:
            self.failures.append(error)
        finally:
            over.set()

    async def _play(self, script: Script, over: asyncio.Event) -> None:
        thread = script.thread
        turn = await self._log.submit(thread, script.content, key=script.key, turn=script.turn)
        self._account.add(Accepted(thread=thread, turn=turn.id, content=script.content, key=script.key))
        if script.key is not None:
            again = await self._log.submit(thread, script.content, key=script.key)
            assert (again.id, again.duplicate) == (turn.id, True), "P6: the same key is the same turn"
        if not script.acts:
            return
        player = Player(script, self._account, self.reader, patient=self._patient, do=self._do)
        run = asyncio.create_task(run_turn(turn, lambda: player, log=self._log))
        halt = asyncio.create_task(player.halted.wait())
        try:
            await asyncio.wait({run, halt}, return_when="FIRST_COMPLETED")
            if not run.done():
                over.set()
            ran = await run
            self._account.add(Ended(thread=thread, turn=turn.id, state=ran.state))
            if script.late is not None and ran.state == "completed":
                await turn.item(script.late)
                self._account.add(Wrote(thread=thread, turn=turn.id, raw=script.late, late=True))
        finally:
            halt.cancel()
            run.cancel()
            await asyncio.wait({run})


def nothing(script: Script, effect: Effect) -> None:
    """No effect in the world."""


@asynccontextmanager
async def playing(
    log: Log, account: Account, scripts: Sequence[Script], *, patient: bool = True, do: Do = nothing
) -> AsyncIterator[Stage]:
    """Play all scripts at once; inside, each has ended, halted or failed. Those halted are cancelled at the end."""
    stage = Stage(log, account, patient=patient, do=do)
    readers = [asyncio.create_task(stage.reader.read(thread)) for thread in sorted({one.thread for one in scripts})]
    overs = [asyncio.Event() for _ in scripts]
    plays = [asyncio.create_task(stage.play(one, over)) for one, over in zip(scripts, overs, strict=True)]
    try:
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(over.wait() for over in overs))
        yield stage
    finally:
        for task in (*plays, *readers):
            task.cancel()
        await asyncio.gather(*plays, *readers, return_exceptions=True)

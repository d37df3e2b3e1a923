"""Asking: submit, run the agent, and show what the log has of it, never what the agent says."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnlog.agents.protocol import AgentFactory
from turnlog.cli.agents import agent_factory
from turnlog.cli.failing import FINDINGS, FINE, HUNG_UP, INTERRUPTED, TERMINATED, sentence
from turnlog.cli.live import Live
from turnlog.cli.output import Output, OutputLost, complain, complain_json, silence
from turnlog.cli.reading import print_turn
from turnlog.cli.recover import TOLD_MOST, recovered_lines
from turnlog.cli.store import Store
from turnlog.cli.trace import tell_end
from turnlog.cli.words import cut_to, one_line, plural, shell_word
from turnlog.errors import AlreadySettled, TurnlogError, UnknownTurn
from turnlog.events.clock import SystemClock
from turnlog.events.codec import json_line
from turnlog.events.kinds import Draft, Event
from turnlog.folds.states import TERMINAL
from turnlog.folds.timeline import Timeline
from turnlog.journal.documents import draft_frame, event_frame, recovered_document, turn_frame
from turnlog.journal.jobs import WhenBusy
from turnlog.journal.log import Log
from turnlog.journal.turn import Turn
from turnlog.runner.runner import run_turn

_DRAW_S: Final = 0.03
"""Least pause between two drawings: what a person sees as flowing."""

_DRAW_SHARE: Final = 9
"""Pause after a drawing in times of what it took: a large turn costs a tenth of one core to watch, however large."""

_STATUS_S: Final = 0.2
"""Pause between two looks at the clock for the status line."""

_EXITS: Final = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked on the command line. Without `content` a turn is asked again: `retry`, or the newest one."""

    thread: str
    content: str | None
    retry: str | None
    agent: str
    workspace: Path | None
    key: str | None
    when_busy: WhenBusy
    edit_of: str | None
    as_json: bool


def run(store: Store, question: Question) -> int:
    """Ask, show, and give the exit code."""
    factory = agent_factory(question.agent)
    with store.opened(create=True) as log:
        _tell_recovered(store, log, as_json=question.as_json)
        return asyncio.run(_ask(store, log, question, factory))


def _tell_recovered(store: Store, log: Log, *, as_json: bool) -> None:
    if not log.recovered:
        return
    if as_json:
        complain_json(json_line(recovered_document(log.recovered)))
        return
    for line in recovered_lines(store, log.recovered[:TOLD_MOST]):
        complain(line)
    if (more := len(log.recovered) - TOLD_MOST) > 0:
        complain(f"And {more} more. See {store.command('threads')}")


async def _ask(store: Store, log: Log, question: Question, factory: AgentFactory) -> int:
    turn = await _submit(log, question)
    out = Output()
    if turn.duplicate:
        return _show_duplicate(out, store, log, question, turn)
    return await Asking(out, store, log, question, turn).run(factory)


async def _submit(log: Log, question: Question) -> Turn:
    if question.content is None:
        asked = question.retry or _newest_interrupted(log, question.thread)
        return await log.retry(question.thread, asked, agent=question.agent, when_busy=question.when_busy)
    return await log.submit(
        question.thread,
        question.content,
        key=question.key,
        agent=question.agent,
        workspace=None if question.workspace is None else str(question.workspace),
        when_busy=question.when_busy,
        edit_of=question.edit_of,
    )


def _newest_interrupted(log: Log, thread: str) -> str:
    """The newest interrupted turn; without one the newest turn, whose refusal says what it is."""
    newest, before = None, None
    while True:
        page = log.turns(thread, before=before)
        for view in page.rows:
            newest = newest or view.turn
            if view.state == "interrupted":
                return view.turn
        if page.next is None:
            break
        before = page.next
    if newest is None:
        raise UnknownTurn(thread=thread, turn="newest")
    return newest


def _show_duplicate(out: Output, store: Store, log: Log, question: Question, turn: Turn) -> int:
    """The message is in the log already: show its turn instead of running it a second time."""
    if question.as_json:
        for event in log.events(turn.thread, turn=turn.id):
            out.json(event_frame(event, log.epoch))
        out.json(_last_line(log, turn))
    else:
        complain(f"This is in the log already, as turn {shell_word(turn.id)}; it is shown, not run again.")
        print_turn(out, store, log, turn.thread, turn.id)
    return FINDINGS if log.turn_view(turn.thread, turn.id).state == "interrupted" else FINE


def _last_line(log: Log, turn: Turn) -> bytes:
    return turn_frame(log.turn_view(turn.thread, turn.id), duplicate=turn.duplicate)


class Asking:
    """One turn that this process runs and shows."""

    def __init__(self, out: Output, store: Store, log: Log, question: Question, turn: Turn) -> None:
        self._out, self._store, self._log, self._question, self._turn = out, store, log, question, turn
        self._live = Live(out)
        self._timeline = Timeline(turn.id)
        self._clock = SystemClock()
        self._news = asyncio.Event()
        self._begun = False
        self._over = False
        self._lost: OutputLost | None = None
        self._stopped_by: signal.Signals | None = None
        self._ending: asyncio.Future[None] | None = None

    async def run(self, factory: AgentFactory) -> int:
        """Run the agent and print until the turn has ended; give the exit code."""
        self._print(self._tell_beginning)
        work = asyncio.create_task(run_turn(self._turn, factory, log=self._log, workspace=self._question.workspace))
        self._on_signals(work)
        watching = [asyncio.create_task(self._follow()), asyncio.create_task(self._draw())]
        try:
            if await self._is_settled_by(work):
                await asyncio.gather(*watching)
        finally:
            for task in watching:
                task.cancel()
            # What became of them is either known from above or less than the error that is on its way.
            await asyncio.gather(*watching, return_exceptions=True)
        return self._finish()

    async def _is_settled_by(self, work: asyncio.Task[object]) -> bool:
        """Wait for the runner. Stopped for good by a second signal, it settles the turn if it can, and raises."""
        try:
            await work
        except asyncio.CancelledError:
            if self._stopped_by is None:
                raise
            return self._turn.state in TERMINAL
        return True

    def _tell_beginning(self) -> None:
        """Name the turn before anything can happen to it; of one that is asked again, repeat the question."""
        if self._question.as_json:
            return
        view = self._log.turn_view(self._turn.thread, self._turn.id)
        again = f" · {one_line(view.preview)}" if view.retry_of is not None else ""
        behind = f" · waiting behind {plural(view.queue_place, 'turn')}" if view.queue_place else ""
        self._out.line(cut_to(f"Turn {shell_word(self._turn.id)}{behind}{again}", self._out.columns), "dim")
        self._out.flush()

    # --- showing ------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Take what the log has of this turn, as it becomes durable, until its terminal event."""
        first = self._log.turn_view(self._turn.thread, self._turn.id).seq_first
        async for news in self._log.follow(self._turn.thread, after=first - 1):
            if news.turn != self._turn.id:
                continue
            if self._question.as_json:
                self._print(lambda news=news: self._out.json(_frame(news, self._log.epoch)))  # type: ignore[misc]
            if isinstance(news, Draft):
                self._timeline.draft(news)
            else:
                self._timeline.event(news)
                self._over = news.kind in TERMINAL
            self._begun = True
            self._news.set()
            if self._over:
                return

    async def _draw(self) -> None:
        """Print what is new, not more often than it can be read."""
        loop = asyncio.get_running_loop()
        while not self._over or self._news.is_set():
            await self._wait_for_news()
            self._news.clear()
            began = loop.time()
            self._print(self._flush if self._question.as_json else self._draw_once)
            await asyncio.sleep(max(_DRAW_S, _DRAW_SHARE * (loop.time() - began)))

    def _draw_once(self) -> None:
        self._live.draw(self._timeline.view(), self._clock.now_us())

    def _flush(self) -> None:
        self._out.flush()

    async def _wait_for_news(self) -> None:
        """Until there is news, or the status line has grown old."""
        try:
            await asyncio.wait_for(self._news.wait(), _STATUS_S if self._out.terminal and self._begun else None)
        except TimeoutError:
            return

    def _print(self, printing: Callable[[], None]) -> None:
        """Print, unless that cannot be done any more: then the turn goes on, as it does when a browser goes away."""
        if self._lost is not None:
            return
        try:
            printing()
        except OutputLost as error:
            self._lost = error
            silence()
            if not error.unread:
                complain(f"{sentence(error, self._store)} The turn goes on: {self._see()}")

    def _see(self) -> str:
        return self._store.command("show", self._turn.thread, self._turn.id)

    # --- ending -------------------------------------------------------------------------------------------------

    def _on_signals(self, work: asyncio.Task[object]) -> None:
        loop = asyncio.get_running_loop()
        for number in _EXITS:
            # Who started this with `nohup`, say, has it ignore the signal, and means it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._stop, number, work)

    def _stop(self, number: signal.Signals, work: asyncio.Task[object]) -> None:
        """The first time ask the turn to end, by a request that its trace shows; the second time end the runner."""
        if self._stopped_by is not None:
            work.cancel()
            return
        self._stopped_by = number
        by = "Ctrl-C" if number == signal.SIGINT else number.name
        self._ending = asyncio.ensure_future(self._request_end(by, work))
        self._print(self._tell_stopping)

    def _tell_stopping(self) -> None:
        self._out.status("")
        complain("\nInterrupting; what was shown is kept. Once more to stop at once.")

    async def _request_end(self, by: str, work: asyncio.Task[object]) -> None:
        try:
            await self._log.request(self._turn.thread, self._turn.id, by=by)
        except AlreadySettled:
            return
        except TurnlogError:
            work.cancel()

    def _finish(self) -> int:
        if self._question.as_json:
            self._print(lambda: self._out.json(_last_line(self._log, self._turn)))
        else:
            self._print(self._tell_end)
        state = self._log.turn_view(self._turn.thread, self._turn.id).state
        if state == "completed":
            return FINE if self._lost is None or self._lost.unread else FINDINGS
        return FINDINGS if self._stopped_by is None else _EXITS[self._stopped_by]

    def _tell_end(self) -> None:
        self._out.line()
        tell_end(self._out, self._store, self._turn.thread, self._timeline.view())
        self._out.flush()


def _frame(news: Event | Draft, epoch: str) -> bytes:
    return draft_frame(news) if isinstance(news, Draft) else event_frame(news, epoch)

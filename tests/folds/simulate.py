"""Legal sequences of frames (events and draft chunks) of a thread, as the journal would write them.

Shares no code with the folds or the journal: what closes what, and where, is worked out here again, plainly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

from turnlog.events.body import DroppedText
from turnlog.events.codec import encode_body, encode_json
from turnlog.events.kinds import (
    AssistantStarted,
    AttemptDropped,
    Closed,
    Completed,
    Draft,
    Event,
    Interrupted,
    Item,
    KnownBody,
    Requested,
    Step,
    Submitted,
    ThreadCreated,
    ThreadItem,
    ThreadLate,
    WorkerStarted,
)
from turnlog.events.thread_kinds import ThreadCompacted, ThreadTruncated, TruncateWhy

Frame: TypeAlias = Event | Draft


@dataclass
class Sketch:
    """One open draft of the simulated journal."""

    id: str
    target: str | None
    kind: str
    place: tuple[int, int]
    text: str = ""

    def closed(self) -> Closed:
        return Closed(self.id, *self.place)


@dataclass
class Work:
    """The started turn."""

    turn: str
    attempt: int = 0
    shown: bool = False
    anonymous: int = 0
    current: Sketch | None = None
    open: dict[str, Sketch] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    steps: set[str] = field(default_factory=set)


@dataclass(repr=False)
class Simulator:
    """Writes one thread. `clock` may run backwards: no fold may look at it."""

    thread: str = "t"
    frames: list[Frame] = field(default_factory=list)
    head: int = 0
    rev: int = 0
    clock: int = 1_000_000
    work: Work | None = None
    queued: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    turns: int = 0
    begun_at: dict[str, int] = field(default_factory=dict)
    holding: list[tuple[int, int]] = field(default_factory=list)
    """(after, seq) of the truncations that no later one takes in."""

    def __post_init__(self) -> None:
        self.event(ThreadCreated(), None)

    def __repr__(self) -> str:
        return "\n".join(
            f"{frame.seq} {frame.turn} {frame.body}"
            if isinstance(frame, Event)
            else f"  {frame.turn} {frame.draft} at ({frame.after}, {frame.rev}) [{frame.offset}:] {frame.text!r}"
            for frame in self.frames
        )

    # --- writing ---------------------------------------------------------------------------------------------------

    def event(self, body: KnownBody, turn: str | None) -> int:
        self.head += 1
        data = encode_body(body)
        self.frames.append(
            Event(thread=self.thread, seq=self.head, turn=turn, at=self.clock, kind=body.kind, body=body, data=data)
        )
        self.clock += 1 if self.head % 3 else -5
        return self.head

    def submit(
        self, content: str | list[Any] = "question", retry_of: str | None = None, edit_of: str | None = None
    ) -> str:
        self.turns += 1
        turn = f"turn-{self.turns}"
        body = Submitted(content=content, digest="d", retry_of=retry_of, edit_of=edit_of)
        self.begun_at[turn] = self.event(body, turn)
        self.queued.append(turn)
        return turn

    def start(self) -> Work:
        self.work = Work(self.queued.pop(0))
        self.event(WorkerStarted(owner="o", fence=1), self.work.turn)
        return self.work

    def begun(self) -> Work:
        """The started turn; one is submitted and started when there is none."""
        if self.work is None:
            if not self.queued:
                self.submit()
            self.start()
        assert self.work is not None
        return self.work

    def _assistant_started(self) -> None:
        work = self.begun()
        if not work.shown:
            work.shown = True
            self.event(AssistantStarted(), work.turn)

    def draft(self, text: str, target: str | None = None, kind: str = "text", part: int = 0) -> str:
        work = self.begun()
        self._assistant_started()
        sketch = self._sketch(work, target, kind, part)
        self.rev += 1
        if sketch.id not in work.open:
            sketch.place = (self.head, self.rev)
            work.open[sketch.id] = sketch
        self.frames.append(
            Draft(
                turn=work.turn,
                draft=sketch.id,
                after=sketch.place[0],
                rev=sketch.place[1],
                chunk_rev=self.rev,
                offset=len(sketch.text),
                text=text,
            )
        )
        sketch.text += text
        return sketch.id

    def _sketch(self, work: Work, target: str | None, kind: str, part: int) -> Sketch:
        if target is None:
            if work.current is None or work.current.kind != kind or work.current.id not in work.open:
                work.current = Sketch(f"{work.attempt}/~{work.anonymous}/{kind}/0", None, kind, (0, 0))
                work.anonymous += 1
            return work.current
        while (id_ := f"{work.attempt}/{target}/{kind}/{part}") in work.used:
            part += 1
        return work.open.get(id_) or Sketch(id_, target, kind, (0, 0))

    def _close(self, sketches: Iterable[Sketch]) -> list[Closed]:
        """The journal drops the drafts in the same write as the event that lists them."""
        work = self.begun()
        closes = []
        for sketch in sketches:
            work.used.add(sketch.id)
            del work.open[sketch.id]
            closes.append(sketch.closed())
        self.rev += bool(closes)
        return closes

    # --- what an agent does ----------------------------------------------------------------------------------------

    def message(self, text: str, id_: str | None = None) -> int:
        self._assistant_started()
        content = [{"type": "output_text", "text": text}]
        return self._item("message", "text", id_, None, role="assistant", content=content)

    def reasoning(self, text: str, id_: str | None = None) -> int:
        return self._item("reasoning", "reasoning", id_, None, summary=[{"type": "summary_text", "text": text}])

    def call(self, call_id: str | None, id_: str | None = None, *, type_: str = "function_call") -> int:
        given = {"input" if type_ == "custom_tool_call" else "arguments": '{"final":1}'}
        return self._item(type_, "args", id_, call_id, name="tool", **given)

    def output(self, call_id: str | None, text: str = "done", *, type_: str = "function_call_output") -> int:
        return self._item(type_, "output", None, call_id, output=text)

    def _item(self, type_: str, kind: str, id_: str | None, call_id: str | None, **fields: Any) -> int:
        work = self.begun()
        names = {name for name in (id_, call_id) if name}
        sketches = [it for it in work.open.values() if it.kind == kind and it.target in names]
        if not sketches:
            sketches = [it for it in work.open.values() if it.kind == kind and it.target is None][:1]
        work.current = None
        raw = {"type": type_, "id": id_, "call_id": call_id, **fields}
        raw = {name: value for name, value in raw.items() if value is not None}
        body = Item(type=type_, id=id_, call_id=call_id, closes=self._close(sketches), raw=encode_json(raw))
        return self.event(body, work.turn)

    def step(self, id_: str, **fields: Any) -> int:
        work = self.begun()
        work.steps.add(id_)
        closes: list[Closed] = []
        if fields.get("status") not in (None, "running", "waiting"):
            targets = {id_, fields.get("call_id")} - {None}
            sketches = [it for it in work.open.values() if it.target in targets and it.kind != "reasoning"]
            for kind in ("text", "args", "output"):
                told = "".join(it.text for it in sketches if it.kind == kind)
                if told:
                    fields.setdefault(kind, told)
            closes = self._close(sketches)
        return self.event(Step(id=id_, closes=closes, **fields), work.turn)

    def drop_attempt(self) -> None:
        work = self.begun()
        dropped = [DroppedText(draft=it.id, text=it.text) for it in work.open.values() if it.text]
        closes = self._close(list(work.open.values()))
        body = AttemptDropped(attempt=work.attempt, reason="stream lost", dropped=dropped, closes=closes)
        self.event(body, work.turn)
        work.attempt += 1
        work.anonymous, work.current = 0, None

    def request(self, approval: str | None = None) -> None:
        what = "interrupt" if approval is None else "decide"
        value = None if approval is None else "yes"
        self.event(Requested(what=what, approval=approval, value=value), self.begun().turn)  # type: ignore[arg-type]

    # --- the end -----------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        work = self._settle("no_final_item", "succeeded", "unknown")
        self.event(Completed(), work.turn)

    def interrupt(self) -> None:
        work = self._settle("interrupted", "interrupted", "interrupted")
        self.interrupted.append(work.turn)
        self.event(Interrupted(reason="process_died"), work.turn)

    def _settle(self, synthesized: Any, text: Any, call: Any) -> Work:
        work = self.begun()
        for sketch in sorted(work.open.values(), key=lambda it: it.place):
            closes, target = self._close([sketch]), sketch.target
            if sketch.kind == "text" and target not in work.steps:
                content = [{"type": "output_text", "text": sketch.text}]
                raw = encode_json({"type": "message", "role": "assistant", "content": content})
                self.event(Item(type="message", closes=closes, synthesized=synthesized, raw=raw), work.turn)
            elif sketch.kind in ("text", "reasoning"):
                kind: Any = "reasoning" if sketch.kind == "reasoning" else "note"
                parent = target if target in work.steps else None
                step = Step(id=f"~{sketch.id}", parent=parent, step=kind, status=text, text=sketch.text, closes=closes)
                self.event(step, work.turn)
            else:
                told: dict[str, Any] = {sketch.kind: sketch.text}
                id_ = target or f"~{sketch.id}"
                step = Step(id=id_, step="tool", call_id=target, status=call, closes=closes, **told)
                self.event(step, work.turn)
        self.settled.append(work.turn)
        self.work = None
        return work

    def late(self, text: str) -> None:
        if self.settled:
            item = Item(type="message", raw=encode_json({"type": "message", "role": "assistant", "content": text}))
            self.event(ThreadLate(of=self.settled[-1], late="item", raw=encode_body(item)), None)

    def loose(self, role: str, text: str) -> None:
        raw = encode_json({"type": "message", "role": role, "content": text})
        self.event(ThreadItem(type="message", raw=raw), None)

    def retry(self) -> None:
        """Ask one that is shown again: a turn is asked again once."""
        shown = [turn for turn in self.interrupted if not self.hides(turn)]
        if shown:
            self.interrupted.remove(shown[-1])
            self.submit(retry_of=shown[-1])

    # --- what happens to the thread as a whole -----------------------------------------------------------------------

    def hides(self, turn: str) -> bool:
        return any(after < self.begun_at[turn] < seq for after, seq in self.holding)

    def shown(self, *, settled: bool) -> list[str]:
        """Turns that may be truncated away; with `settled` no open turn would go with them."""
        running = [*([] if self.work is None else [self.work.turn]), *self.queued]
        turns = [turn for turn in self.begun_at if not self.hides(turn)]
        last_open = max((self.begun_at[turn] for turn in running), default=0)
        return [turn for turn in turns if not settled or self.begun_at[turn] > last_open]

    def truncate(self, turn: str, why: TruncateWhy = "undo") -> None:
        after = self.begun_at[turn] - 1
        left = [it for it in self.begun_at if self.begun_at[it] <= after and not self.hides(it)]
        self.holding = [it for it in self.holding if it[1] <= after]
        body = ThreadTruncated(
            after=after,
            turn=turn,
            latest=left[-1] if left else None,
            earlier=self.holding[-1][1] if self.holding else None,
            why=why,
        )
        self.holding.append((after, self.event(body, None)))

    def edit(self, turn: str) -> None:
        self.truncate(turn, "edit")
        self.submit("another question", edit_of=turn)

    def compact(self) -> None:
        self.event(ThreadCompacted(summary="All was well.", until=1), None)


def whole_drafts(frames: Sequence[Frame]) -> list[Draft]:
    """The drafts that are open after `frames`, each as one whole chunk: what a fresh reader gets."""
    texts: dict[tuple[str, str], str] = {}
    last: dict[tuple[str, str], Draft] = {}
    for frame in frames:
        if isinstance(frame, Draft):
            key = (frame.turn, frame.draft)
            texts[key] = texts.get(key, "")[: frame.offset] + frame.text
            last[key] = frame
        else:
            for closed in getattr(frame.body, "closes", []):
                assert frame.turn is not None
                gone = (frame.turn, closed.draft)
                assert (closed.after, closed.rev) == (last[gone].after, last[gone].rev)
                del texts[gone], last[gone]
    return [
        Draft(
            turn=turn,
            draft=draft,
            after=last[turn, draft].after,
            rev=last[turn, draft].rev,
            chunk_rev=last[turn, draft].chunk_rev,
            offset=0,
            text=text,
        )
        for (turn, draft), text in texts.items()
    ]


def events_of(frames: Sequence[Frame]) -> list[Event]:
    return [frame for frame in frames if isinstance(frame, Event)]


# --- what hypothesis drives it with ----------------------------------------------------------------------------------

TEXTS = st.sampled_from(["a", "Grüße ", "x\u2028y", "\x00", "\ud83d", "\ude00", "\U0001f600", "{", "long " * 40])
UNIQUE = tuple(f"n{number}" for number in range(8))
REUSED = ("call_0", "call_1", "")
AGENTS = ("A", "B", "C")
"""Three levels: A's parent is a call, B's is A, C's is B; any of them may come before its parent, or never."""
PARENTS = {"A": "n0", "B": "A", "C": "B"}


@st.composite
def threads(draw: st.DrawFn, *, reuse: bool = True) -> Simulator:
    """A thread of up to 40 actions. Without `reuse`, no name is used for two calls."""
    simulator = Simulator()
    simulator.submit()
    simulator.start()
    names = st.sampled_from(UNIQUE + REUSED if reuse else UNIQUE)
    called: set[str] = set()
    for _ in range(draw(st.integers(0, 40))):
        _act(draw, simulator, names, called, reuse=reuse)
    return simulator


def _act(draw: st.DrawFn, sim: Simulator, names: st.SearchStrategy[str], called: set[str], *, reuse: bool) -> None:
    name = draw(names)
    kinds = st.sampled_from(["text", "reasoning"])
    match draw(st.integers(0, 15)):
        case 0:
            sim.draft(draw(TEXTS), None, draw(kinds))
        case 1:
            sim.draft(draw(TEXTS), f"msg_{name}", draw(kinds), draw(st.integers(0, 2)))
        case 2:
            sim.draft(
                draw(TEXTS), draw(st.sampled_from(AGENTS)), draw(st.sampled_from(["text", "reasoning", "output"]))
            )
        case 3 if name and (reuse or name not in called):
            sim.draft(draw(TEXTS), name, "args")
        case 4 if name and (reuse or name in called):
            sim.draft(draw(TEXTS), name, "output")
        case 5:
            sim.message(draw(TEXTS), draw(st.sampled_from([None, f"msg_{name}"])))
        case 6:
            sim.reasoning(draw(TEXTS), draw(st.sampled_from([None, f"msg_{name}"])))
        case 7 if reuse or name not in called:
            called.add(name)
            sim.call(name, draw(st.sampled_from([None, f"fc_{name}"])) if reuse else None)
        case 8 if reuse or name in called:
            sim.output(name, draw(TEXTS))
        case 9:
            _act_agent(draw, sim, reuse=reuse)
        case 10 if name:
            _act_tool_step(draw, sim, name, called, reuse=reuse)
        case 11:
            sim.drop_attempt()
        case 12:
            sim.request(draw(st.sampled_from([None, "ask"])))
        case 13:
            approval = draw(st.sampled_from(["waiting", "succeeded", "failed"]))
            if reuse or approval != "waiting":
                sim.step("ask", step="approval", status=approval, title="May I?")
        case 14 if draw(st.integers(0, 3)) == 0:
            _act_end(draw, sim, called)
        case 15:
            _act_beside(draw, sim)
        case _:
            pass


def _act_beside(draw: st.DrawFn, sim: Simulator) -> None:
    match draw(st.integers(0, 5)):
        case 0:
            sim.submit()
        case 1:
            sim.loose("assistant", "aside")
        case 2:
            sim.compact()
        case 3 if turns := sim.shown(settled=True):
            sim.truncate(draw(st.sampled_from(turns)))
        case 4 if turns := sim.shown(settled=False):
            sim.edit(draw(st.sampled_from(turns)))
        case _:
            sim.late("after")


@st.composite
def reworked(draw: st.DrawFn) -> Simulator:
    """A thread of short turns, many of them retried, edited or taken back."""
    sim = Simulator()
    for _ in range(draw(st.integers(1, 25))):
        match draw(st.integers(0, 9)):
            case 0 | 1:
                sim.submit(draw(TEXTS))
            case 2:
                sim.draft(draw(TEXTS))
            case 3:
                sim.message(draw(TEXTS))
                sim.complete()
            case 4 | 5:
                sim.begun()
                sim.interrupt()
            case 6:
                sim.retry()
            case 7:
                sim.loose("user", draw(TEXTS))
            case 8 if turns := sim.shown(settled=True):
                sim.truncate(draw(st.sampled_from(turns)))
            case 9 if turns := sim.shown(settled=False):
                sim.edit(draw(st.sampled_from(turns)))
            case _:
                sim.late("after")
    return sim


def _act_agent(draw: st.DrawFn, sim: Simulator, *, reuse: bool) -> None:
    agent = draw(st.sampled_from(AGENTS))
    work = sim.begun()
    fresh = agent not in work.steps
    status = draw(st.sampled_from(["running", "succeeded", "failed", "waiting", None]))
    if not reuse and not fresh:
        status = draw(st.sampled_from(["succeeded", "failed", None]))
    parent = draw(st.sampled_from([PARENTS[agent], agent, "never", None])) if reuse else PARENTS[agent]
    sim.step(agent, step="subagent", status=status, parent=parent, title=draw(st.sampled_from([None, "", "Look"])))


def _act_tool_step(draw: st.DrawFn, sim: Simulator, name: str, called: set[str], *, reuse: bool) -> None:
    if not reuse:
        sim.step(f"s_{name}", step="tool", parent=draw(st.sampled_from([*AGENTS, None])), text="note")
        return
    id_ = draw(st.sampled_from([name, f"s_{name}"]))
    call_id = draw(st.sampled_from([None, name]))
    status = draw(st.sampled_from(["running", "succeeded", "failed", None]))
    parent = draw(st.sampled_from([*AGENTS, None, f"s_{name}", "s_call_0", "never"]))
    sim.step(
        id_, step="tool", call_id=call_id, status=status, parent=parent, output=draw(st.sampled_from([None, "", "o"]))
    )


def _act_end(draw: st.DrawFn, sim: Simulator, called: set[str]) -> None:
    sim.begun()
    draw(st.sampled_from([sim.complete, sim.interrupt]))()
    called.clear()
    if draw(st.booleans()):
        sim.retry()

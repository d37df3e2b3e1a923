"""What Codex tells of one turn, as signals: pure, so that recorded transcripts can be replayed.

It follows these rules, each learned from the real process:

- Of raw items only those of our own turn are the turn's: injected ones come back under other turn ids.
- The person's item is known by the client id that follows it; it is the raw form of the submission, and no second one.
- Host context is left out by its kinds, and counted.
- While a compaction runs, an assistant's item that was never announced is its summary, and no answer.
- What an attempt had shown is dropped when Codex says that it tries again; it uses other ids then.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from turnlog.agents.codex.credentials import without_credentials
from turnlog.agents.codex.jsonrpc import Told
from turnlog.agents.codex.left_out import LeftOut
from turnlog.agents.codex.steps import (
    TOLD_BY_RAW_ITEMS,
    Item,
    id_of,
    json_words,
    shortened,
    step_inside,
    step_of,
    text_of,
)
from turnlog.agents.protocol import (
    AttemptDroppedSignal,
    DraftSignal,
    ItemSignal,
    Signal,
    StepSignal,
    UsageSignal,
)
from turnlog.errors import AgentFailed
from turnlog.events.kinds import DraftKind, StepStatus
from turnlog.limits import CODEX_OUTPUT_DRAFT_BYTES, DRAFT_PART_MAX, TIME_US_MAX
from turnlog.protocols.codex_context import context_kind

_IGNORED: Final = frozenset(
    {
        "thread/started",
        "thread/status/changed",
        "thread/settings/updated",
        "thread/tokenUsage/updated",
        "thread/readState/changed",
        "thread/name/updated",
        "turn/started",
        "turn/diff/updated",
        "serverRequest/resolved",
        "mcpServer/startupStatus/updated",
        "account/rateLimits/updated",
        "remoteControl/status/changed",
        "item/reasoning/summaryPartAdded",
        "item/fileChange/patchUpdated",
        "item/fileChange/outputDelta",
    }
)
"""Notifications that say nothing which items, drafts and steps do not say."""

_USAGE: Final = {
    "input_tokens": "inputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
    "total_tokens": "totalTokens",
}
_WARNING_CHARS: Final = 200
_ASSISTANTS: Final = {"message": "agentMessage", "reasoning": "reasoning"}
"""Types of raw items that Codex announces before it completes them, and as what."""


class Ended(msgspec.Struct, frozen=True):
    """How Codex ended the turn: its own word, and what it says of a failure."""

    status: str
    detail: str | None


class _Raw(msgspec.Struct):
    """The parameters of a raw item. Whatever is not one, the turn cannot go on without it."""

    turnId: str  # Codex's own name
    item: msgspec.Raw


class _Head(msgspec.Struct):
    type: str
    id: str | None = None
    role: str | None = None


_raw_items: Final = msgspec.json.Decoder(_Raw)
_heads: Final = msgspec.json.Decoder(_Head)


class Translator:
    """One turn of one Codex thread. Feed it notifications in order; `ended` is set by the last one of the turn."""

    def __init__(self, *, thread: str, turn: str, client_id: str) -> None:
        self._thread, self._turn, self._client_id = thread, turn, client_id
        self._announced = set[str]()
        self._compacting: str | None = None
        self._held: list[bytes] = []
        self._echoed = False
        self._drafted: Counter[str] = Counter()
        self._showing = False
        self._retries = 0
        self._subagents: dict[str, str] = {}
        self._usage: Counter[str] = Counter()
        self.left_out = LeftOut()
        self.ended: Ended | None = None

    @property
    def usage(self) -> dict[str, Any] | None:
        """Tokens of all model requests of the turn so far."""
        return dict(self._usage) or None

    def take(self, told: Told) -> Iterator[Signal]:
        """The signals of one notification. After the end of the turn: what still comes of its commands.

        Raises `AgentFailed` for a raw item that cannot be read: the turn cannot be whole without it.
        """
        if told.method == "rawResponseItem/completed":
            yield from self._raw_item(told.params)
            return
        params = told.fields
        teller = _TELLERS.get(told.method)
        if teller is None:
            if told.method not in _IGNORED:
                self.left_out.message(told.method)
        elif (turn := params.get("turnId", self._turn)) == self._turn:
            yield from teller(self, params)
        elif isinstance(turn, str) and text_of(params.get("threadId")) in self._subagents:
            yield from self._of_subagent(told.method, params)

    def is_about(self, told: Told) -> bool:
        """Whether a notification names this turn, or a sub-agent that it has started."""
        params = told.fields
        return params.get("turnId") == self._turn or text_of(params.get("threadId")) in self._subagents

    def last_words(self) -> Iterator[Signal]:
        """One note on what was left out, if anything was; to be told when the turn ends, however it does."""
        if self._held:
            self.left_out.item("an unconfirmed echo of the message", self._held[0])
            yield from (ItemSignal(raw=raw) for raw in self._held[1:])
            self._held = []
        yield from self.left_out.note()

    # --- raw items ----------------------------------------------------------------------------------------------

    def _raw_item(self, params: msgspec.Raw) -> Iterator[Signal]:
        try:
            read = _raw_items.decode(params)
            head = _heads.decode(read.item) if read.turnId == self._turn else None
        except (msgspec.DecodeError, RecursionError) as error:
            detail = f"Codex sent a raw item that cannot be read: {error}"
            raise AgentFailed(reason="failed", detail=detail) from error
        if head is None:
            return
        raw = bytes(read.item)
        if (kind := context_kind(raw)) is not None:
            self.left_out.item(kind, raw)
        elif self._is_summary(head):
            yield ItemSignal(raw=raw, purpose="compaction")
        elif head.type == "message" and head.role == "user" and not self._echoed:
            self._held.append(raw)
        else:
            yield from self._own_item(raw)

    def _own_item(self, raw: bytes) -> Iterator[Signal]:
        self._showing, self._retries = False, 0
        yield ItemSignal(raw=raw)

    def _is_summary(self, head: _Head) -> bool:
        return (
            self._compacting is not None
            and head.type in _ASSISTANTS
            and head.role in (None, "assistant")
            and id_of(head.id) not in self._announced
        )

    # --- items --------------------------------------------------------------------------------------------------

    def _item_started(self, params: dict[str, Any]) -> Iterator[Signal]:
        item = _item(params)
        kind, id_ = text_of(item.get("type")), id_of(item.get("id"))
        if kind == "userMessage":
            yield from self._user_message(item)
        elif kind in TOLD_BY_RAW_ITEMS:
            self._announced.add(id_)
        elif kind == "contextCompaction":
            self._compacting = id_ or "compaction"
            yield self._compaction("running")
        elif id_:
            self._remember_children(item)
            yield step_of(item, over=False, at_us=_micros(params, "startedAtMs"))

    def _item_completed(self, params: dict[str, Any]) -> Iterator[Signal]:
        item = _item(params)
        kind = text_of(item.get("type"))
        if kind == "contextCompaction":
            if self._compacting is not None:
                yield self._compaction("succeeded")
            self._compacting = None
        elif kind not in TOLD_BY_RAW_ITEMS and text_of(item.get("id")):
            self._remember_children(item)
            yield step_of(item, over=True, at_us=_micros(params, "completedAtMs"))

    def _user_message(self, item: dict[str, Any]) -> Iterator[Signal]:
        """The words of a person, of whom the client id says whether they are this turn's submission."""
        if not self._held:
            return
        said, *later = self._held
        self._held = []
        self._echoed = item.get("clientId") == self._client_id
        yield ItemSignal(raw=said, purpose="submission" if self._echoed else None)
        if self._echoed:
            yield from (ItemSignal(raw=raw) for raw in later)
        else:
            self._held = later

    def _compaction(self, status: StepStatus) -> Signal:
        return StepSignal(
            id=str(self._compacting), step="phase", name="compaction", title="Compacting the context", status=status
        )

    # --- text ---------------------------------------------------------------------------------------------------

    def _text(self, params: dict[str, Any]) -> Iterator[Signal]:
        yield from self._draft(params, "text")

    def _thought(self, params: dict[str, Any]) -> Iterator[Signal]:
        yield from self._draft(params, "reasoning", part=params.get("summaryIndex", params.get("contentIndex")))

    def _output(self, params: dict[str, Any]) -> Iterator[Signal]:
        """Output as it comes, up to a bound; the item that ends the command tells the rest."""
        size = len(text_of(params.get("delta")).encode())
        self._drafted[text_of(params.get("itemId"))] += size
        if self._drafted[text_of(params.get("itemId"))] <= CODEX_OUTPUT_DRAFT_BYTES:
            yield from self._draft(params, "output")

    def _draft(self, params: dict[str, Any], kind: DraftKind, part: Any = 0) -> Iterator[Signal]:
        text, target = text_of(params.get("delta")), id_of(params.get("itemId"))
        if not text or self.ended is not None:
            return
        if not target:
            self.left_out.message("text without an item id")
        self._showing = True
        known = type(part) is int and 0 <= part <= DRAFT_PART_MAX
        yield DraftSignal(text=text, target=target or None, kind=kind, part=part if known else 0)

    # --- the turn -----------------------------------------------------------------------------------------------

    def _plan(self, params: dict[str, Any]) -> Iterator[Signal]:
        plan = params.get("plan")
        lines = [text_of(params.get("explanation"))]
        for step in plan if isinstance(plan, list) else []:
            if isinstance(step, dict):
                mark = {"completed": "x", "inProgress": "~"}.get(text_of(step.get("status")), " ")
                lines.append(f"[{mark}] {text_of(step.get('step'))}")
        text = shortened("\n".join(line for line in lines if line))
        yield StepSignal(id="codex-plan", step="plan", name="plan", title="Plan", status="succeeded", text=text)

    def _response(self, params: dict[str, Any]) -> Iterator[Signal]:
        counts = params.get("usage")
        if isinstance(counts, dict):
            for ours, theirs in _USAGE.items():
                if type(counts.get(theirs)) is int:
                    self._usage[ours] += counts[theirs]
            yield UsageSignal(usage=dict(self._usage))

    def _warning(self, params: dict[str, Any]) -> Iterator[Signal]:
        text = without_credentials(text_of(params.get("message")) or text_of(params.get("summary")))
        yield StepSignal(
            id=f"codex-warning-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
            step="note",
            name="warning",
            title=text[:_WARNING_CHARS],
            detail=shortened(without_credentials(text_of(params.get("details")))) or None,
            status="succeeded",
            text=shortened(text),
        )

    def _error(self, params: dict[str, Any]) -> Iterator[Signal]:
        """A retry: its text is dropped. One after the other without a word between is told once, as silence is."""
        if params.get("willRetry") is not True or self.ended is not None:
            return
        self._retries += 1
        if self._retries == 1 or self._showing:
            self._showing = False
            yield AttemptDroppedSignal(reason=_error_words(params.get("error")))

    def _turn_completed(self, params: dict[str, Any]) -> Iterator[Signal]:
        turn = params.get("turn")
        if not isinstance(turn, dict):
            return
        if (spawned := self._subagents.get(text_of(params.get("threadId")))) is not None:
            yield StepSignal(id=spawned, status="succeeded" if turn.get("status") == "completed" else "failed")
        if turn.get("id") != self._turn:
            return
        error = turn.get("error")
        self.ended = Ended(text_of(turn.get("status")), None if error is None else _error_words(error))
        yield from self.last_words()

    # --- sub-agents ---------------------------------------------------------------------------------------------

    def _remember_children(self, item: Item) -> None:
        """The threads that an item has started: what they do belongs below it."""
        children = item.get("receiverThreadIds")
        for child in children if isinstance(children, list) else []:
            if isinstance(child, str):
                self._subagents.setdefault(child, id_of(item.get("id")))

    def _of_subagent(self, method: str, params: dict[str, Any]) -> Iterator[Signal]:
        """The work of a sub-agent, below the step that started it. Its raw items are those of its own thread."""
        over = method == "item/completed"
        if not over and method != "item/started":
            return
        at = _micros(params, "completedAtMs" if over else "startedAtMs")
        thread = text_of(params.get("threadId"))
        step = step_inside(_item(params), over=over, at_us=at, thread=thread, parent=self._subagents[thread])
        if step is not None:
            yield step


_TELLERS: Final[dict[str, Callable[[Translator, dict[str, Any]], Iterator[Signal]]]] = {
    "item/started": Translator._item_started,
    "item/completed": Translator._item_completed,
    "item/agentMessage/delta": Translator._text,
    "item/reasoning/summaryTextDelta": Translator._thought,
    "item/reasoning/textDelta": Translator._thought,
    "item/commandExecution/outputDelta": Translator._output,
    "item/plan/delta": Translator._text,
    "turn/plan/updated": Translator._plan,
    "turn/completed": Translator._turn_completed,
    "rawResponse/completed": Translator._response,
    "warning": Translator._warning,
    "configWarning": Translator._warning,
    "deprecationNotice": Translator._warning,
    "error": Translator._error,
}


def _item(params: Item) -> dict[str, Any]:
    item = params.get("item")
    return item if isinstance(item, dict) else {}


def _micros(params: Item, name: str) -> int | None:
    millis = params.get(name)
    return millis * 1_000 if type(millis) is int and 0 <= millis * 1_000 <= TIME_US_MAX else None


def _error_words(error: Any) -> str:
    """What Codex says of an error, and its own name for it."""
    if not isinstance(error, dict):
        return without_credentials(json_words(error))
    said = [text_of(error.get("message")), text_of(error.get("additionalDetails"))]
    words = ": ".join(text for text in said if text)
    info = error.get("codexErrorInfo")
    return without_credentials(f"{words} ({json_words(info)})" if info not in (None, "other") else words)

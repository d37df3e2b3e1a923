"""What Codex says becomes signals: recorded turns of the real one, and what it cannot be made to say."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from turnlog.agents.codex.jsonrpc import Told
from turnlog.agents.codex.translate import Ended
from turnlog.agents.protocol import AttemptDroppedSignal, DraftSignal, ItemSignal, StepSignal, UsageSignal
from turnlog.errors import AgentFailed
from turnlog.limits import CODEX_OUTPUT_DRAFT_BYTES

from .replaying import FOLDER, SCENES, play, replay, told, translator, words

EXPECTED = {
    "plain": ["submission message user", "draft text msg_0001: Hello 你好 world", "item message assistant"],
    "tool": [
        "submission message user",
        "draft text msg_0001: I look.",
        "item message assistant",
        "item function_call call_0001",
        "step tool command call_0001 running",
        "step tool command call_0001 failed",
        "item function_call_output call_0001",
        "draft text msg_0002: It says hi.",
        "item message assistant",
    ],
    "patch": [
        "submission message user",
        "item function_call call_0001",
        "step tool file_change call_0001 running",
        "step tool file_change call_0001 succeeded",
        "item function_call_output call_0001",
        "draft text msg_0002: Written.",
        "item message assistant",
    ],
    "reasoning": [
        "submission message user",
        "draft reasoning rs_0001: I think of it.",
        "item reasoning rs_0001",
        "draft text msg_0001: So it is.",
        "item message assistant",
    ],
    "unknown_tool": [
        "submission message user",
        "item function_call call_0001",
        "item function_call_output call_0001",
        "draft text msg_0002: There is none.",
        "item message assistant",
    ],
    "approved": [
        "submission message user",
        "item function_call call_0001",
        "step tool command call_0001 running",
        "step tool command call_0001 succeeded",
        "item function_call_output call_0001",
        "draft text msg_0002: ok",
        "item message assistant",
    ],
    "cut": ["submission message user", "draft text msg_0001: half an answer"],
    "call_then_cut": [
        "submission message user",
        "item function_call call_0001",
        "step tool command call_0001 running",
        "step tool command call_0001 succeeded",
        "item function_call_output call_0001",
    ],
}
ENDINGS = {"cut": "failed", "call_then_cut": "failed", "interrupted": "interrupted"}


def item(raw: Any, **params: Any) -> Told:
    return told("rawResponseItem/completed", item=raw, **params)


def message(role: str, text: str, id_: str = "msg_1", kinds: list[str] | None = None) -> dict[str, Any]:
    marks = {"turn_id": "U", "content_item_kinds": kinds or ["user.text" if role == "user" else "unknown"]}
    content = [{"type": "input_text", "text": text}]
    passthrough = {"internal_chat_message_metadata_passthrough": marks}
    return {"type": "message", "id": id_, "role": role, "content": content, **passthrough}


def announced(client_id: str | None = "client-1") -> Told:
    return told("item/started", item={"type": "userMessage", "id": "u", "clientId": client_id})


def ended(status: Any = "completed", error: Any = None, turn: str = "U") -> Told:
    return told("turn/completed", turn={"id": turn, "status": status, "error": error})


def retry(text: str = "Reconnecting... 1/3") -> Told:
    return told("error", error={"message": text, "additionalDetails": "cut"}, willRetry=True)


def delta(text: str, item_id: str | None = "msg_1", method: str = "item/agentMessage/delta", **more: Any) -> Told:
    return told(method, delta=text, itemId=item_id, **more)


# --- recorded turns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scene", SCENES)
def test_pieces_make_no_difference(scene: str) -> None:
    """A recorded turn gives the same signals in one chunk, in pieces and byte by byte, and ends as it did."""
    whole, translator = replay(scene)
    assert replay(scene, 1)[0] == replay(scene, 1_000)[0] == whole
    assert translator.ended is not None
    assert translator.ended.status == ENDINGS.get(scene, "completed")


@pytest.mark.parametrize("scene", EXPECTED)
def test_a_recorded_turn_is_told(scene: str) -> None:
    """Items, drafts and steps come in the order in which they happened, the warnings of a new process first."""
    said = [word for word in words(replay(scene)[0]) if " warning " not in word]
    assert said == EXPECTED[scene]


@pytest.mark.parametrize("scene", SCENES)
def test_raw_items_keep_their_bytes(scene: str) -> None:
    """Each raw item that is kept stands in the transcript byte for byte (P10)."""
    transcript = (FOLDER / f"{scene}.jsonl").read_bytes()
    kept = [signal.raw for signal in replay(scene)[0] if isinstance(signal, ItemSignal)]
    assert kept
    assert all(isinstance(raw, bytes) and b'"item":' + raw in transcript for raw in kept)


def test_tokens_are_counted_over_the_whole_turn() -> None:
    """The usage of a turn is the sum of its model requests, and each of them is told as it ends."""
    signals, translator = replay("tool")
    counts = [signal.usage["total_tokens"] for signal in signals if isinstance(signal, UsageSignal)]
    assert counts == [120, 240]
    assert translator.usage == {
        "input_tokens": 200,
        "cached_input_tokens": 20,
        "output_tokens": 40,
        "reasoning_tokens": 10,
        "total_tokens": 240,
    }


def test_a_command_tells_how_it_went() -> None:
    """A command's step has its line, folder, output, exit code and times, and names its call."""
    steps = [s for s in replay("tool")[0] if isinstance(s, StepSignal) and s.id == "call_0001"]
    begun, over = steps
    assert (begun.step, begun.call_id, begun.status) == ("tool", "call_0001", "running")
    assert "echo hi" in (begun.title or "")
    assert begun.args == {"command": begun.title, "cwd": "/srv/ws"}
    assert (over.output, over.extra and over.extra["exit_code"]) == ("hi\n", 3)
    assert over.failure is not None and over.failure.reason == "exit code 3"
    assert begun.started_at and over.ended_at and begun.started_at <= over.ended_at


def test_a_file_change_shows_what_was_changed() -> None:
    """The step of an edit has the path and the difference."""
    *_, over = [s for s in replay("patch")[0] if isinstance(s, StepSignal) and s.name == "file_change"]
    assert over.title == "/srv/ws/a.txt"
    assert over.args["changes"][0]["diff"] == "hi\n"


def test_a_sub_agents_work_stands_below_it() -> None:
    """What a sub-agent says is a step inside the step that started it, even after the turn; its raw items stay its."""
    signals = replay("subagent")[0]
    steps = [word for word in words(signals) if "subagent" in word]
    assert steps == ["step subagent spawnAgent call_0001 running", "step subagent spawnAgent call_0001 None"]
    inside = [s for s in signals if isinstance(s, StepSignal) and s.parent == "call_0001"]
    assert [(s.name, s.text, s.worker_thread) for s in inside] == [("message", "Found too.", inside[0].worker_thread)]
    assert words(signals)[-1] == "step None None call_0001 succeeded"
    assert sum(isinstance(s, ItemSignal) for s in signals) == 4


# --- the nine traps --------------------------------------------------------------------------------------------


def test_trap_1_injected_items_come_back_and_are_ignored() -> None:
    """Of the items of a restored thread only those of our own turn are kept; their echoes are nobody's (trap 1)."""
    assert words(replay("restored")[0])[2:] == [
        "submission message user",
        "draft text msg_0001: Again.",
        "item message assistant",
    ]
    foreign = item(message("assistant", "x"), turnId="auto-compact-0")
    assert play(translator(), [foreign, item(message("assistant", "x"), turnId="another")]) == []


def test_trap_2_the_persons_item_is_known_by_the_client_id() -> None:
    """The raw user item is the submission's own form only if our client id follows it, and only once (trap 2)."""
    ours = play(translator(), [item(message("user", "hi")), announced()])
    assert words(ours) == ["submission message user"]
    others = play(translator(), [item(message("user", "hi")), announced(None)])
    assert words(others) == ["item message user"]
    twice = [item(message("user", "hi")), announced(), item(message("user", "more", "msg_2")), announced()]
    assert words(play(translator(), twice)) == ["submission message user", "item message user"]


def test_trap_2_an_echo_that_nothing_confirms_is_no_second_message() -> None:
    """When the turn ends before the client id came, the submission stands for itself, and the note tells of it
    (trap 2)."""
    signals = play(translator(), [item(message("user", "hi")), ended("interrupted")])
    assert words(signals) == ["step note left_out codex-left-out succeeded"]
    (note,) = signals
    assert isinstance(note, StepSignal) and "unconfirmed" in json.dumps(note.args)


def test_two_messages_of_persons_keep_their_order() -> None:
    """A second message that comes before the first one is confirmed stands after it."""
    said = [item(message("user", "a", "m1")), item(message("user", "b", "m2")), announced(), announced(None), ended()]
    raws = [
        json.loads(one.raw)
        for one in play(translator(), said)
        if isinstance(one, ItemSignal) and isinstance(one.raw, bytes)
    ]
    assert [raw["id"] for raw in raws] == ["m1", "m2"]


@pytest.mark.parametrize("id_", ["x" * 2_000, "~x"])
def test_an_id_that_the_log_does_not_take_is_told_by_its_digest(id_: str) -> None:
    """A step of such an id is one step, from its beginning to its end, and its output belongs to it."""
    begun, drafted, done = play(
        translator(),
        [
            told("item/started", item={"type": "commandExecution", "id": id_}),
            told("item/commandExecution/outputDelta", itemId=id_, delta="x", summaryIndex=-1),
            told("item/completed", item={"type": "commandExecution", "id": id_, "status": {"a": 1}}),
        ],
    )
    assert isinstance(begun, StepSignal) and isinstance(drafted, DraftSignal) and isinstance(done, StepSignal)
    assert begun.id == drafted.target == done.id and begun.id.startswith("sha256-")


def test_trap_3_a_compactions_summary_is_no_answer() -> None:
    """An assistant's item that was never announced, while a compaction runs, is told apart; what follows is kept
    (trap 3)."""
    said = words(replay("compacted")[0])
    assert [word for word in said if "compaction" in word or "assistant" in word] == [
        "step phase compaction ca97f1baa0e4 running",
        "compaction message assistant",
        "step phase compaction ca97f1baa0e4 succeeded",
        "item message assistant",
    ]


def test_trap_3_a_compaction_that_never_ends_swallows_nothing() -> None:
    """While a compaction is open, announced answers and the person's own item are kept (trap 3)."""
    said = [
        told("item/started", item={"type": "contextCompaction", "id": "c"}),
        item(message("user", "hi")),
        announced(),
        told("item/started", item={"type": "agentMessage", "id": "msg_2"}),
        item(message("assistant", "yes", "msg_2")),
    ]
    assert words(play(translator(), said))[1:] == ["submission message user", "item message assistant"]


def test_trap_4_the_mark_of_an_abort_is_no_message() -> None:
    """The `<turn_aborted>` that Codex adds in the person's name is left out, and the note says so (trap 4)."""
    signals = replay("interrupted")[0]
    assert words(signals)[2:] == [
        "submission message user",
        "draft text msg_0001: never en",
        "step note left_out codex-left-out succeeded",
    ]
    note = signals[-1]
    assert isinstance(note, StepSignal) and note.args["items"] == {"generic.turn_aborted": 1}


def test_trap_5_a_retry_drops_what_was_shown() -> None:
    """The text of an attempt is dropped when Codex says that it tries again, and only the next attempt's stays
    (trap 5)."""
    assert words(replay("retried")[0])[3:] == [
        "draft text msg_0001: half an answer",
        "dropped",
        "draft text msg_0002: A whole one.",
        "item message assistant",
    ]


def test_trap_6_retries_without_a_word_are_as_silent_as_nothing() -> None:
    """An endless "Reconnecting" is told once, so that the idle limit still comes; text in between begins anew
    (trap 6)."""
    (first,) = play(subject := translator(), [retry() for _ in range(50)])
    assert isinstance(first, AttemptDroppedSignal) and first.reason == "Reconnecting... 1/3: cut"
    again = play(subject, [delta("a"), retry(), retry(), item(message("assistant", "b")), retry(), retry()])
    assert words(again) == ["draft text msg_1: a", "dropped", "item message assistant", "dropped"]


def test_trap_8_host_context_is_left_out_and_counted() -> None:
    """Context that Codex adds is no item of the turn; one note names its kinds, count and digests (trap 8)."""
    signals = replay("context")[0]
    assert words(signals)[2:5] == [
        "submission message user",
        "draft text msg_0001: With context.",
        "item message assistant",
    ]
    note = signals[-1]
    assert isinstance(note, StepSignal) and note.step == "note"
    kinds = " ".join(note.args["items"])
    for kind in ("host_skills", "permissions", "agents_md", "environments"):
        assert kind in kinds
    assert len(note.args["sha256"]) == sum(note.args["items"].values())


def test_trap_9_what_codex_could_not_keep_is_told() -> None:
    """An item of a type that Codex does not know comes as `other`, without words: it is left out, and counted
    (trap 9)."""
    note = replay("odd_items")[0][-1]
    assert isinstance(note, StepSignal) and note.args["items"] == {"other": 1}


# --- what only a fake says -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{"turnId": "U"}, {"turnId": "U", "item": None}, {"turnId": "U", "item": {"id": "x"}}, {"item": {}}, [1]],
)
def test_a_raw_event_without_an_item_ends_the_turn(params: Any) -> None:
    """A raw notification that holds no item fails the turn, and stores nothing."""
    broken = Told("rawResponseItem/completed", msgspec.Raw(json.dumps(params).encode()))
    with pytest.raises(AgentFailed, match="raw item that cannot be read"):
        play(translator(), [broken])


def test_text_without_an_item_id_is_kept_and_told() -> None:
    """A delta without an item id goes to the anonymous draft, and the note warns of it."""
    signals = play(translator(), [delta("a", None), delta("b", None), ended()])
    assert words(signals) == ["draft text None: ab", "step note left_out codex-left-out succeeded"]
    note = signals[-1]
    assert isinstance(note, StepSignal) and note.args == {"messages": {"text without an item id": 2}}


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("completed", None, Ended("completed", None)),
        ("of_next_year", None, Ended("of_next_year", None)),
        (None, None, Ended("", None)),
        ("failed", {"message": "m", "codexErrorInfo": "other"}, Ended("failed", "m")),
        ("failed", {"message": "m", "codexErrorInfo": {"x": {"y": 1}}}, Ended("failed", 'm ({"x":{"y":1}})')),
        ("failed", {"message": "m", "additionalDetails": "d"}, Ended("failed", "m: d")),
        ("failed", "words", Ended("failed", "words")),
    ],
)
def test_an_end_is_told_in_codexs_words(status: Any, error: Any, expected: Ended) -> None:
    """How the turn ended is Codex's own word, also one that nobody knows, with all that it says of an error."""
    subject = translator()
    play(subject, [ended("completed", turn="another")])
    assert subject.ended is None
    play(subject, [ended(status, error)])
    assert subject.ended == expected


@pytest.mark.parametrize(
    "strange",
    [
        Told("item/started", msgspec.Raw(b"7")),
        told("item/started", item="x"),
        told("item/started", item={"type": 7}),
        told("item/started", item={"type": "commandExecution"}),
        told("item/completed", item={"type": "commandExecution", "id": 7}),
        told("item/agentMessage/delta", delta=7, itemId="x"),
        told("item/completed", turnId="V", threadId=["x"], item={}),
        told("turn/plan/updated", plan="x"),
        told("turn/completed", turn="x"),
        told("rawResponse/completed", usage=[1]),
        told("error", error="x", willRetry="yes"),
    ],
)
def test_a_strange_shape_is_no_failure(strange: Told) -> None:
    """Fields of another type than today's stop nothing."""
    assert words(play(translator(), [strange])) in ([], ["step plan plan codex-plan succeeded"])


def test_what_is_not_known_is_counted() -> None:
    """A notification of a kind that nobody knows yet is named in the note."""
    *_, note = play(translator(), [told("item/of/next/year"), told("item/of/next/year"), ended()])
    assert isinstance(note, StepSignal) and note.args == {"messages": {"item/of/next/year": 2}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {"type": "mcpToolCall", "server": "s", "tool": "t", "status": "failed", "error": {"message": "no"}},
            ("tool", "s.t", "failed", "no"),
        ),
        (
            {"type": "mcpToolCall", "server": "s", "tool": "t", "status": "completed", "result": {"content": [1]}},
            ("tool", "s.t", "succeeded", None),
        ),
        (
            {"type": "dynamicToolCall", "tool": "look", "status": "completed", "success": False},
            ("tool", "look", "failed", "the tool failed"),
        ),
        ({"type": "commandExecution", "status": "declined"}, ("tool", "command", "failed", "declined")),
        ({"type": "commandExecution", "status": "inProgress"}, ("tool", "command", "unknown", None)),
        ({"type": "fileChange", "status": "of_next_year", "changes": 7}, ("tool", "file_change", "succeeded", None)),
        ({"type": "plan", "text": "first"}, ("plan", "plan", "succeeded", None)),
        ({"type": "imageView", "path": "/x.png"}, ("tool", "view_image", "succeeded", None)),
        (
            {"type": "collabAgentToolCall", "tool": "wait", "status": "interrupted"},
            ("tool", "wait", "interrupted", None),
        ),
        ({"type": "sleepOfNextYear", "durationMs": 1}, ("note", "sleepOfNextYear", "succeeded", None)),
    ],
)
def test_every_kind_of_item_is_a_step(raw: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Tools, plans and kinds that nobody knows become steps with a status that is true, and a reason if they failed."""
    (step,) = play(translator(), [told("item/completed", item={"id": "i", **raw})])
    assert isinstance(step, StepSignal)
    assert (step.step, step.name, step.status, step.failure and step.failure.reason) == expected


def test_a_plan_is_one_entry_that_changes() -> None:
    """The plan of a turn is a step of one id, with a line and a mark for each point."""
    plan = [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}, {"step": "c"}]
    (step,) = play(translator(), [told("turn/plan/updated", explanation="why", plan=plan)])
    assert isinstance(step, StepSignal)
    assert step.text == "why\n[x] a\n[~] b\n[ ] c"


def test_what_is_too_large_for_a_step_is_cut_and_says_so() -> None:
    """Large outputs, arguments and control characters make a step that fits, and tell how much there was."""
    raw = {"type": "commandExecution", "id": "i", "command": "\0" * 90_000, "aggregatedOutput": "é" * 90_000}
    (step,) = play(translator(), [told("item/completed", item=raw)])
    assert isinstance(step, StepSignal)
    assert len(msgspec.json.encode(step)) < 48 * 1_024
    assert "of 90000 characters" in (step.output or "")
    assert "characters" in step.args


def test_output_is_shown_as_it_comes_up_to_a_bound() -> None:
    """A command's output is drafted while it runs; one that never stops does not fill the turn."""
    piece = "x" * 1_000
    chunks = [delta(piece, "call_1", "item/commandExecution/outputDelta") for _ in range(100)]
    drafts = play(translator(), chunks)
    assert all(isinstance(d, DraftSignal) and (d.kind, d.target) == ("output", "call_1") for d in drafts)
    assert len(drafts) == CODEX_OUTPUT_DRAFT_BYTES // 1_000


def test_what_comes_after_the_end_is_told_without_drafts() -> None:
    """A command that outlives its turn still ends its step; its text is drafted no more."""
    subject = translator()
    play(subject, [ended()])
    late = [
        delta("x", "call_1", "item/commandExecution/outputDelta"),
        told("item/completed", item={"type": "commandExecution", "id": "call_1", "status": "completed"}),
    ]
    assert words(play(subject, late)) == ["step tool command call_1 succeeded"]

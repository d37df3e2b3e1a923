"""Profile `portable`: a history for another endpoint than the one that made the items."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.folds.histories import HOSTED, Log, marks
from turnlog.folds.history import History, history
from turnlog.folds.portable import PART_LEFT_OUT


def one(raw: bytes, type_: str = "message", **known: Any) -> History:
    """The portable history of one item."""
    log = Log()
    log.item(None, type_, raw=raw, **known)
    return history(log.events, "portable")


FIELDS = b'"role":"user","content":"q"'
"""What makes an object a message."""


def first(raw: bytes) -> bytes:
    """The object with these fields before its own."""
    return b"{" + FIELDS + b"," * (raw != b"{}") + raw[1:]


def last(raw: bytes) -> bytes:
    """The object with these fields after its own."""
    return raw[:-1] + b"," * (raw != b"{}") + FIELDS + b"}"


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b'{"id":"m","type":"message","n":1e400}', b'{"type":"message","n":1e400}'),
        (b'{"type":"message","id":"m"}', b'{"type":"message"}'),
        (b'{ "a" : "" , "id" : "m" , "n" : 9007199254740993 }', b'{ "a" : "" , "n" : 9007199254740993 }'),
        (b'{"id":{"a":["}",{}]},"id":2,"z":"\\u0000","a":1.10}', b'{"z":"\\u0000","a":1.10}'),
        (b'{"z":1,"\\u0069d":"m","encrypted_content":"x"}', b'{"z":1}'),
        (b'{"a":{"id":"inner"},"created_by":"x","b":" \\" ,"}', b'{"a":{"id":"inner"},"b":" \\" ,"}'),
        (b'{"id":"m"}', b"{}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("put", [first, last])
def test_what_is_kept_is_kept_byte_for_byte(put: Callable[[bytes], bytes], raw: bytes, kept: bytes) -> None:
    """P10, C18, C21: ids go with their commas; numbers, spaces, escapes and the order of keys are as stored."""
    found = one(put(raw))
    assert found.items == (put(kept),)
    assert found.changed == (0,)


def test_a_part_that_stays_has_nothing_sealed() -> None:
    """P4: of a part that shows something to everybody only what a single server can read is taken out."""
    part = {"type": "output_text", "encrypted_content": "SECRET", "text": "open"}
    log = Log()
    log.item(None, "message", role="assistant", content=[part])
    (item,) = history(log.events, "portable").items
    assert json.loads(item)["content"] == [{"type": "output_text", "text": "open"}]


@pytest.mark.parametrize(("role", "type_"), [("assistant", "output_text"), ("user", "input_text")])
def test_what_stands_for_a_part_is_of_the_roles_type(role: str, type_: str) -> None:
    """C26: an endpoint takes no text part of the other side, so what stands for a part is of the item's own side."""
    part = {"type": "input_image" if role == "user" else "output_file", "file_id": "file_1"}
    log = Log()
    log.item(None, "message", role=role, content=[part])
    (item,) = history(log.events, "portable").items
    assert json.loads(item)["content"] == [{"type": type_, "text": PART_LEFT_OUT}]


def test_an_item_without_anything_bound_is_not_touched() -> None:
    """P10: an item that any endpoint understands is given as it is stored, and is not named as changed."""
    raw = b'{"type":"function_call_output", "call_id":"c","output":[{"type":"input_text","text":"\\u00e9"}], "x":1e1}'
    log = Log()
    log.call(None, "c")
    log.item(None, "function_call_output", raw=raw, call_id="c")
    found = history(log.events, "portable")
    assert (found.items[1], found.changed) == (raw, ())


@pytest.mark.parametrize("type_", HOSTED)
def test_what_the_models_own_side_carried_out_goes(type_: str) -> None:
    """P4: a call that only its own server understands is left out with its reason, and stays in `responses`."""
    log = Log()
    seq = log.item(None, type_, id="h_1")
    found = history(log.events, "portable")
    assert [(it.seq, it.why) for it in found.omitted] == [(seq, f"{type_}, which the model's own side carried out")]
    assert marks(history(log.events, "responses").items) == [seq]


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        ("item_reference", "a reference to what only its server has"),
        ("compaction", "a summary that only its server can read"),
        ("context_compaction", "a summary that only its server can read"),
        ("mcp_list_tools", "mcp_list_tools, which another endpoint may not know"),
        ("mcp_approval_request", "mcp_approval_request, which another endpoint may not know"),
        ("from_the_future", "from_the_future, which another endpoint may not know"),
    ],
)
def test_what_only_its_server_has_goes(type_: str, why: str) -> None:
    """P4: references, encrypted summaries and types that another endpoint may refuse are left out, with the reason;
    `responses` keeps them for the server that made them."""
    log = Log()
    seq = log.item(None, type_, id="x")
    assert [(it.seq, it.why) for it in history(log.events, "portable").omitted] == [(seq, why)]
    assert marks(history(log.events, "responses").items) == [seq]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"summary": [], "encrypted_content": "gAAA"}, "reasoning that only its server can read"),
        ({"summary": [{"type": "summary_text", "text": "hm"}]}, "reasoning, which another endpoint does not take"),
        ({"content": [{"type": "reasoning_text", "text": "hm"}]}, "reasoning, which another endpoint does not take"),
    ],
)
def test_reasoning_goes(fields: dict[str, Any], why: str) -> None:
    """P3, P4: reasoning is given back only to who made it; it is named, and never turned into an answer."""
    log = Log()
    seq = log.item(None, "reasoning", **fields)
    log.message(None, "answer")
    found = history(log.events, "portable")
    assert ([(it.seq, it.why) for it in found.omitted], len(found.items)) == ([(seq, why)], 1)


@pytest.mark.parametrize("type_", ["function_call", "custom_tool_call", "local_shell_call", "shell_call"])
def test_calls_of_the_client_stay_as_pairs(type_: str) -> None:
    """Calls that the client carried out stay with their outputs, without the server's ids and with the client's."""
    log = Log()
    log.call(None, "c1", type_, id="fc_1")
    log.output(None, "c1", type_, id="fco_1")
    found = history(log.events, "portable")
    assert [json.loads(raw).get("call_id") for raw in found.items] == ["c1", "c1"]
    assert not [raw for raw in found.items if b'"id"' in raw]


def test_an_id_that_names_the_call_stays() -> None:
    """An output of a local shell call that names its call in `id` keeps it: without it there would be no pair (C27)."""
    log = Log()
    log.call(None, "c1", "local_shell_call")
    log.item(None, "local_shell_call_output", id="c1", output="done")
    assert json.loads(history(log.events, "portable").items[1])["id"] == "c1"


def test_a_pair_of_an_unknown_type_goes_whole() -> None:
    """C27: with a call that another endpoint may not know goes its output, and no neutral one is added."""
    log = Log()
    log.call(None, "c1", "mcp_tool_call")
    log.output(None, "c1", "mcp_tool_call")
    log.call(None, "c2", "computer_call")
    found = history(log.events, "portable")
    assert (found.items, found.added, len(found.omitted)) == ((), (), 3)


@pytest.mark.parametrize("field", ["file_id", "encrypted_content"])
def test_a_part_that_only_its_server_has_is_told(field: str) -> None:
    """P4: a picture by file id is replaced by words that say so, in its place; what any endpoint can fetch stays."""
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": "look"}, {"type": "input_image", field: "f"}]
    parts += [{"type": "input_image", "file_id": None, "image_url": "data:,"}]
    raw = json.dumps({"type": "message", "role": "user", "content": parts}).encode()
    found = one(raw)
    content = json.loads(found.items[0])["content"]
    assert content == [parts[0], {"type": "input_text", "text": PART_LEFT_OUT}, parts[2]]
    assert ([it.why for it in found.omitted], found.changed) == (["a part that only its server has"], (0,))


def test_a_citation_of_a_servers_file_goes() -> None:
    """An answer keeps its text, and loses annotations that cite files of the server that wrote it."""
    raw = (
        b'{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a",'
        b'"annotations":[{"type":"file_citation","file_id":"f"}],"logprobs":[]}]}'
    )
    kept = raw.replace(b'[{"type":"file_citation","file_id":"f"}]', b"[]")
    assert one(raw).items == (kept,)


def test_lone_surrogates_are_mended_here_too() -> None:
    """C19: a lone surrogate becomes U+FFFD, in what is kept."""
    found = one(b'{"type":"message","role":"user","content":"\\ud83d","id":"m"}')
    assert found.items == (b'{"type":"message","role":"user","content":"\\ufffd"}',)

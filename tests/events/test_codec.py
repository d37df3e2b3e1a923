"""Bytes from bodies and back: exact, deterministic, and refused before anything is stored."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.strategies import RAW, VALUES, bodies
from turnlog.errors import NotJson, RecordDamaged, TooLarge
from turnlog.events.clock import rfc3339
from turnlog.events.codec import (
    accept_raw,
    check_value,
    content_digest,
    decode_body,
    decode_json,
    encode_body,
    encode_json,
    event_json,
    json_depth,
    json_line,
)
from turnlog.events.kinds import (
    PAYLOAD_KINDS,
    VERSION,
    AnyBody,
    Attachment,
    Damaged,
    Event,
    Item,
    KnownBody,
    Step,
    Submitted,
    ThreadItem,
    ThreadLate,
    Unknown,
)
from turnlog.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX


def again(body: KnownBody) -> Any:
    return decode_body(body.kind, VERSION, encode_body(body))


def event(body: KnownBody, *, seq: int = 1, turn: str | None = "t") -> Event:
    return Event(thread="x", seq=seq, turn=turn, at=5, kind=body.kind, body=body, data=encode_body(body))


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


# --- exactness ---------------------------------------------------------------------------------------------------


@given(bodies())
def test_every_body_comes_back(body: KnownBody) -> None:
    """A body of any kind is read back equal to what was written (C17, C18, C19, C21)."""
    assert again(body) == body


@given(bodies())
def test_bytes_are_deterministic(body: KnownBody) -> None:
    """Equal bodies have equal bytes, also after a round trip, and a record is one line before its payload (C17)."""
    data = encode_body(body)
    assert encode_body(again(body)) == data
    line = data.partition(b"\n")[0]
    assert json.loads(line) is not None
    assert body.kind in PAYLOAD_KINDS or b"\n" not in data


@pytest.mark.parametrize(
    "text",
    ["A\u2028B\u2029C\u0085D\x0b\x0c\x1cE\r\n", "a\x00b", "\\u0000", "\\\\u0000", "\ud83d", "\ude00\ud83d", "\ufeff"],
)
def test_text_is_kept_exactly(text: str) -> None:
    """Line separators, NUL, its escaped looks and lone surrogates come back as they were, and distinct (C17-C19)."""
    assert again(Submitted(content=text, digest="d")).content == text
    assert again(Step(id="s", output=text)).output == text


def test_halves_of_a_pair_become_the_character() -> None:
    """Two halves in one text are read back as the character that they are (C19)."""
    assert again(Submitted(content="\ud83d\ude00", digest="d")).content == "\U0001f600"


@pytest.mark.parametrize("number", [9007199254740993, -(2**63) - 1, 2**64, 10**400, -1, 0])
def test_integers_of_any_size_are_exact(number: int) -> None:
    """Integers beyond what a double or 64 bits hold come back exactly, beside a lone surrogate too (C21)."""
    assert again(Step(id="s", args={"n": number})).args == {"n": number}
    assert again(Step(id="s", args={"n": number, "s": "\ud800"})).args == {"n": number, "s": "\ud800"}


def test_keys_are_only_keys() -> None:
    """Keys that mean something to other languages are kept like any other, in order (C21)."""
    args = {"__proto__": 1, "constructor": {}, "1e400": "x", "": 0, "b": 1, "a": 2}
    assert list(again(Step(id="s", args=args)).args.items()) == list(args.items())


@given(RAW, st.sampled_from(["item", "thread_item"]))
def test_raw_bytes_are_untouched(raw: bytes, kind: str) -> None:
    """The payload of an item is stored and read byte for byte (P10)."""
    body = Item(raw=raw) if kind == "item" else ThreadItem(raw=raw)
    assert encode_body(body).endswith(b"\n" + raw)
    assert again(body).raw == raw


def test_accepted_bytes_are_the_given_bytes() -> None:
    """Raw bytes with any spacing, key order, number form and repeated keys are accepted as they came (P10)."""
    raw = b' {"type" : "message",\r\n "x":1.0e+2,"x":10000000000000000000001, "id":"m" }\n'
    accepted, head = accept_raw(raw)
    assert accepted is raw
    assert (head.type, head.id, head.call_id) == ("message", "m", None)


def test_a_mapping_is_encoded_once_in_its_order() -> None:
    """A mapping becomes compact JSON with its own order of keys (P10)."""
    raw, head = accept_raw(OrderedDict(type="message", b=1, a=[1.5, None, True, "é"]))
    assert raw == '{"type":"message","b":1,"a":[1.5,null,true,"é"]}'.encode()
    assert head.type == "message"


def test_subclasses_and_other_containers_are_taken_as_what_they_are() -> None:
    """Values that only behave like built-in ones are accepted, not met with a foreign error."""

    class Name(str):
        __slots__ = ()

    raw, _ = accept_raw({"a": Name("x"), "b": MappingProxyType({"c": range(2)}), "d": (1,)})
    assert raw == b'{"a":"x","b":{"c":[0,1]},"d":[1]}'


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), 1e400, {1: "x"}, {None: 1}, b"x", {1, 2}, object(), 10**5_000],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """NaN, Infinity, keys that are not text and foreign objects are refused before anything is stored (C21)."""
    with pytest.raises(NotJson):
        check_value("args", {"deep": [value]})
    with pytest.raises(NotJson):
        accept_raw({"deep": [value]})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'"text"',
        b"{",
        b'{"a":1} x',
        b'{"a":1}{"b":2}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":NaN,"type":"\\ud83d"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\n"}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_raw_bytes_that_are_not_one_json_object_are_refused(raw: bytes) -> None:
    """Bytes that are not UTF-8, not JSON, or not exactly one object are refused before anything is stored (C21)."""
    with pytest.raises(NotJson):
        accept_raw(raw)


def test_raw_of_another_type_is_refused() -> None:
    """Text is not bytes: it is refused, not guessed at."""
    with pytest.raises(NotJson):
        accept_raw("{}")  # type: ignore[arg-type]


@pytest.mark.parametrize("opening", [b"[", b'{"k":'])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    """Nesting of 5,000 levels, or one over the limit, is refused by name; at the limit it is kept (C21)."""
    closing = b"]" if opening == b"[" else b"}"

    def raw(levels: int) -> bytes:
        return b'{"a":' + opening * (levels - 1) + (b"" if closing == b"]" else b"0") + closing * (levels - 1) + b"}"

    for levels in (5_000, JSON_DEPTH_MAX + 1):
        with pytest.raises(TooLarge) as refused:
            accept_raw(raw(levels))
        assert refused.value.limit == "JSON_DEPTH_MAX"
    assert accept_raw(raw(JSON_DEPTH_MAX))[0] == raw(JSON_DEPTH_MAX)


def test_brackets_in_text_are_no_nesting() -> None:
    """Brackets within strings, after escaped quotes too, count for nothing."""
    raw = rb'{"a":"\"' + b"[{" * 5_000 + rb'\\","b":[]}'
    assert accept_raw(raw)[0] == raw
    assert json_depth(raw) == 2


def test_deep_and_endless_values_are_refused() -> None:
    """A value nested too deeply, one that holds itself, and one that unfolds without bound are refused (C21, P11)."""
    check_value("args", nested(JSON_DEPTH_MAX))
    endless: dict[str, Any] = {}
    endless["a"] = endless["b"] = endless
    doubled: list[Any] = []
    for _ in range(60):
        doubled = [doubled, doubled]
    for value in (nested(JSON_DEPTH_MAX + 1), endless, doubled):
        with pytest.raises(TooLarge):
            check_value("args", value)


def test_a_body_over_the_limit_is_refused_by_name() -> None:
    """A body longer than the limit is refused with its name and size, and one of just that size is kept (P4)."""
    frame = len(encode_body(Submitted(content="", digest="d")))
    fits = Submitted(content="x" * (BODY_BYTES_MAX - frame), digest="d")
    assert again(fits) == fits
    with pytest.raises(TooLarge) as refused:
        encode_body(Submitted(content=fits.content + "x", digest="d"))  # type: ignore[operator]
    assert (refused.value.limit, refused.value.given) == ("BODY_BYTES_MAX", BODY_BYTES_MAX + 1)
    with pytest.raises(TooLarge):
        accept_raw(b'{"a":"' + b"x" * BODY_BYTES_MAX + b'"}')


# --- what we do not know -----------------------------------------------------------------------------------------


@given(st.binary())
def test_newer_kinds_and_versions_are_carried(data: bytes) -> None:
    """A record of an unknown kind or a newer version is `Unknown` whatever its bytes are (P4)."""
    assert decode_body("from_the_future", VERSION, data) == Unknown()
    assert decode_body("step", VERSION + 1, data) == Unknown()


def test_unknown_fields_are_let_pass() -> None:
    """A known kind with a field of a newer version is read; its bytes stay with the event (P4)."""
    assert decode_body("step", VERSION, b'{"id":"s","from_the_future":[1]}') == Step(id="s")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("step", b'{"id":"s","status":"levitating"}'),
        ("step", b"{}"),
        ("step", b'{"id":'),
        ("step", b"\xff"),
        ("step", b'{"id":"s","args":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("step", b'{"id":"s","args":NaN,"text":"\\ud800"}'),
        ("item", b"{}"),
        ("completed", b""),
    ],
)
def test_a_malformed_known_record_is_damage(kind: str, data: bytes) -> None:
    """A known kind that cannot be read is `Damaged`, says why, and raises nothing (P4)."""
    body = decode_body(kind, VERSION, data)
    assert isinstance(body, Damaged)
    assert body.problem


@given(st.sampled_from(["item", "step", "thread_late", "submitted"]), st.binary())
def test_no_bytes_break_the_reader(kind: str, data: bytes) -> None:
    """Whatever bytes stand in a record, reading and showing it raises nothing (P4)."""
    body = decode_body(kind, VERSION, data)
    if isinstance(body, Damaged):
        json.loads(event_json(Event(thread="x", seq=1, turn=None, at=0, kind=kind, body=body, data=data)))


def test_decoding_says_what_is_wrong() -> None:
    """A value that does not fit raises `RecordDamaged` with the problem."""
    with pytest.raises(RecordDamaged, match="Expected"):
        decode_json(b'{"id":1}', Step)


# --- documents ---------------------------------------------------------------------------------------------------


@given(bodies())
def test_an_event_is_one_json_line(body: KnownBody) -> None:
    """For documents and streams an event is one line of JSON with seq, turn, kind, time and body (C17)."""
    if isinstance(body, ThreadLate):
        return
    document = event_json(event(body))
    assert b"\n" not in document
    assert b"\r" not in document
    found = json.loads(document)
    assert (found["seq"], found["turn"], found["kind"], found["at"]) == (1, "t", body.kind, rfc3339(5))
    if isinstance(body, Item | ThreadItem):
        assert found["body"]["raw"] == json.loads(body.raw)


def test_a_raw_item_of_several_lines_is_one_line_in_documents() -> None:
    """Line ends between the values of a raw item do not break a document or a stream; its text is untouched (P10)."""
    body = Item(type="message", raw=b'{\r\n "content": "a\\nb",\n "n": 1 }')
    document = event_json(event(body))
    assert b"\n" not in document
    assert json.loads(document)["body"] == {"type": "message", "raw": {"content": "a\nb", "n": 1}}


ENDS = "\u0085\u2028\u2029"


@pytest.mark.parametrize(
    "body",
    [
        Step(id=ENDS, output=ENDS, args={ENDS: ENDS}),
        Item(type="message", raw=encode_json({"content": ENDS})),
        ThreadLate(of=ENDS, late="item", raw=encode_body(Item(raw=encode_json({"content": ENDS})))),
        ThreadLate(of="t", late="from_the_future", raw=ENDS.encode()),
        Unknown(),
        Damaged(problem="torn"),
    ],
    ids=lambda body: type(body).__name__,
)
def test_no_document_has_a_line_end_of_other_readers(body: AnyBody) -> None:
    """C17: U+0085, U+2028 and U+2029 stand as escapes in a document, whose values are those of the record."""
    data = encode_json({"text": ENDS}) if isinstance(body, Unknown | Damaged) else encode_body(body)
    assert ENDS.encode() in data
    document = event_json(Event(thread="x", seq=1, turn=ENDS, at=5, kind=body.kind, body=body, data=data))
    assert len(document.decode().splitlines()) == 1
    found = json.loads(document)
    assert found["turn"] == ENDS
    assert ENDS in json.dumps(found["body"], ensure_ascii=False)
    assert json_line([ENDS, "é\ud800\n"]) == b'["\\u0085\\u2028\\u2029","\xc3\xa9\\ud800\\n"]'


@pytest.mark.parametrize("raw", [b"{torn", b'{"a":"\xff"}', b"", b'{"a":NaN}'])
def test_a_damaged_raw_item_is_text_in_a_document(raw: bytes) -> None:
    """P4: a raw item that was damaged on the disk stands as text in `data`, and the document around it can be read."""
    for body in (Item(raw=raw), ThreadLate(of="t", late="item", raw=encode_body(Item(raw=raw)))):
        found = json.loads(event_json(event(body)))["body"]
        shown = found["event"]["body"] if isinstance(body, ThreadLate) else found
        assert shown == {"data": raw.decode("utf-8", "replace")}


def test_a_late_event_is_shown_whole() -> None:
    """What came late is in the document as the event it would have been (P5)."""
    late = ThreadLate(of="t", late="item", raw=encode_body(Item(type="message", raw=b'{"a":1}')))
    found = json.loads(event_json(event(late, turn=None)))
    assert found["body"]["of"] == "t"
    assert found["body"]["event"]["body"] == {"type": "message", "raw": {"a": 1}}
    assert (found["turn"], found["body"]["event"]["turn"]) == (None, "t")


# --- digests -----------------------------------------------------------------------------------------------------


@given(VALUES)
def test_the_digest_does_not_see_key_order(value: Any) -> None:
    """Equal contents have one digest, whatever the order of their keys (P6)."""

    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(inner) for inner in part] if isinstance(part, list) else part

    assert content_digest([value], []) == content_digest([turned(value)], [])


def test_the_digest_sees_content_and_files() -> None:
    """Another text, file or type of value is another digest; a file is its digest or, without one, its name (P6)."""
    file = Attachment(name="a", sha256="1")
    digests = [
        content_digest("pay 10", []),
        content_digest("pay 1000", []),
        content_digest(["pay 10"], []),
        content_digest("pay 10", [file]),
        content_digest("pay 10", [Attachment(name="a", sha256="2")]),
        content_digest("pay 10", [Attachment(name="1")]),
        content_digest("pay 10", [Attachment(name="a")]),
        content_digest("\ud83d", []),
        content_digest("\ufffd", []),
    ]
    assert len(set(digests)) == len(digests)
    assert content_digest("pay 10", [Attachment(name="b", sha256="1")]) == content_digest("pay 10", [file])
    canonical = b'["pay 10",[["1",null],[null,"a"]]]'
    assert content_digest("pay 10", [file, Attachment(name="a")]) == hashlib.sha256(canonical).hexdigest()


def test_lone_surrogates_are_the_only_escapes() -> None:
    """Text is stored as UTF-8; only what UTF-8 lacks is escaped, in values and keys (C19)."""
    assert encode_json({"é\ud800": "\U0001f600"}) == b'{"\xc3\xa9\\ud800":"\xf0\x9f\x98\x80"}'

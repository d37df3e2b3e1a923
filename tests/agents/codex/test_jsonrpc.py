"""The framing of Codex's pipe: the same messages in whatever pieces they come, and no line that would kill a server."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agents.codex import jsonrpc
from turnlog.agents.codex.jsonrpc import (
    Asked,
    Lines,
    Message,
    Reply,
    Told,
    Unreadable,
    error_line,
    notification_line,
    one_line,
    read_message,
    request_line,
    result_line,
)
from turnlog.errors import InvalidInput, TooLarge

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["\u2028", "\x85", "\0", "\r"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)
IDS = st.integers(0, 3) | st.sampled_from(["0", "a"])
MESSAGES = st.one_of(
    st.fixed_dictionaries({"id": IDS, "method": WORDS, "params": VALUES}),
    st.fixed_dictionaries({"method": WORDS, "params": VALUES, "emittedAtMs": st.integers(0, 9)}),
    st.fixed_dictionaries({"id": IDS, "result": VALUES}),
    st.fixed_dictionaries({"id": IDS, "error": st.fixed_dictionaries({"code": st.integers(-9, 9), "message": WORDS})}),
)


def framed(data: bytes, size: int) -> list[Message]:
    lines = Lines()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [read_message(line) for piece in pieces for line in lines.feed(piece)]


@given(st.lists(MESSAGES, max_size=5), st.integers(1, 7), st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_pieces_make_no_difference(sent: list[dict[str, Any]], size: int, end: bytes, ascii_: bool) -> None:
    """One chunk, a few bytes at a time and byte by byte give the same messages."""
    data = b"".join(json.dumps(message, ensure_ascii=ascii_).encode() + end for message in sent)
    whole = framed(data, max(1, len(data)))
    assert len(whole) == len(sent)
    assert framed(data, size) == framed(data, 1) == whole


@given(MESSAGES)
def test_a_message_is_told_by_its_method_first(sent: dict[str, Any]) -> None:
    """A request of the other side, whose ids collide with ours, is never taken for a reply."""
    (message,) = framed(json.dumps(sent).encode() + b"\n", 1_000)
    match message:
        case Asked():
            assert "method" in sent and message.id == sent["id"]
            assert json.loads(bytes(message.params)) == sent["params"]
        case Told():
            assert "id" not in sent and json.loads(bytes(message.params)) == sent["params"]
        case Reply():
            assert "method" not in sent and message.id == sent["id"]
            if message.error is None:
                assert json.loads(bytes(message.result)) == sent["result"]
            else:
                assert message.error.message == sent["error"]["message"]
        case Unreadable():
            pytest.fail("it was a message")


@pytest.mark.parametrize("line", [b"WARNING: x", b"[1]", b"{}", b'{"id":1}', b'{"method":1}', b"{" * 5_000, b"\xff"])
def test_garbage_is_told_and_stops_nothing(line: bytes) -> None:
    """A line that is no message gives its beginning, and the next line is read as ever."""
    got = framed(line + b'\n{"method":"m"}\n', 3)
    assert got == [Unreadable(line[:200]), Told("m", msgspec.Raw(b"null"))]


def test_an_error_of_another_shape_is_still_an_error() -> None:
    """A refusal that is no object of code and message keeps its own words."""
    (reply,) = framed(b'{"id":1,"error":"no"}\n', 100)
    assert isinstance(reply, Reply) and reply.error is not None and reply.error.message == '"no"'


def test_an_error_that_is_cut_in_a_url_tells_no_password() -> None:
    """A password is cut off before the text is shortened: half a URL would hide that it is one."""
    secret = b"pass" * 100
    (reply,) = framed(b'{"id":1,"error":["https://me:' + secret + b'@host.x"]}\n', 1_000)
    assert isinstance(reply, Reply) and reply.error is not None
    assert reply.error.message == '["https://…@host.x"]'


def test_a_raw_part_keeps_its_bytes() -> None:
    """What stands inside of a message is given byte for byte: spaces, escapes and order too."""
    raw = b'{"b" : 1.10, "a":"\\u00e9\xc3\xa9"}'
    (told,) = framed(b'{"method":"m", "params":' + raw + b"}\n", 2)
    assert isinstance(told, Told) and bytes(told.params) == raw


def test_half_a_line_is_no_message() -> None:
    """A last line without its end gives nothing: who wrote it has not finished."""
    assert framed(b'{"method":"a"}\n{"method":"b"}', 5) == [Told("a", msgspec.Raw(b"null"))]


def test_an_empty_line_is_nothing() -> None:
    """Lines without anything are passed over."""
    assert framed(b'\n\r\n{"method":"a"}\n \n', 1) == [Told("a", msgspec.Raw(b"null"))]


def test_a_huge_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 5 MB in small pieces is one message; one over the limit is refused by the limit's name."""
    text = "x" * 5_000_000
    (told,) = framed(json.dumps({"method": "m", "params": text}).encode() + b"\n", 65_536)
    assert isinstance(told, Told) and len(bytes(told.params)) == 5_000_002
    monkeypatch.setattr(jsonrpc, "CODEX_LINE_BYTES_MAX", 100)
    with pytest.raises(TooLarge, match="CODEX_LINE_BYTES_MAX"):
        framed(b"y" * 101, 10)


@given(VALUES)
def test_what_is_sent_is_one_line_of_json(value: Any) -> None:
    """Each kind of line ends once, holds no other line end, and says what it was given."""
    lines = [request_line(7, "m", value), result_line("a", value), error_line(1, -1, "no"), notification_line("n")]
    for line in lines:
        assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(lines[0]) == {"id": 7, "method": "m", "params": value}
    assert json.loads(lines[1]) == {"id": "a", "result": value}


def test_raw_items_go_into_a_line_as_they_are() -> None:
    """A raw item keeps its bytes in a request, except that line ends between its tokens become spaces."""
    line = request_line(1, "m", {"items": [one_line(b'{"a":\r\n1.0, "b":"\\n"}')]})
    assert b'[{"a":  1.0, "b":"\\n"}]' in line


@pytest.mark.parametrize("params", [{"text": "a\ud800"}, {"items": [msgspec.Raw(b'"\xff"')]}])
def test_what_has_no_utf8_is_refused_before_it_is_sent(params: dict[str, Any]) -> None:
    """Half a surrogate pair or broken UTF-8 would end the server or never be answered: it is refused here."""
    with pytest.raises(InvalidInput, match="turn/start"):
        request_line(1, "turn/start", params)

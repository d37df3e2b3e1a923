"""The loopback Responses endpoint: it answers by its script, breaks as it is told, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from turnlog.testing.responses_answers import (
    Answer,
    broken,
    call,
    failed,
    half_call,
    hang,
    incomplete,
    items,
    reasoning_text,
    shell,
    text,
)
from turnlog.testing.responses_answers import (
    http as http_error,
)
from turnlog.testing.responses_endpoint import ResponsesEndpoint


@pytest.fixture
def endpoint() -> Iterator[ResponsesEndpoint]:
    with ResponsesEndpoint() as endpoint:
        yield endpoint


def post(endpoint: ResponsesEndpoint, said: str = "hi") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(endpoint.url).netloc, timeout=10)
    body = {"input": [{"role": "user", "content": said}]}
    connection.request("POST", "/v1/responses", json.dumps(body), {"X-Case": "Kept"})
    return connection.getresponse()


def events(response: http.client.HTTPResponse) -> list[dict[str, Any]]:
    lines = response.read().decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_text_comes_in_pieces_and_whole(endpoint: ResponsesEndpoint) -> None:
    """The pieces of a text are the text of its finished item, and the last event completes the response."""
    endpoint.script(text("Hello world", chunks=3))
    got = events(post(endpoint))
    pieces = [event["delta"] for event in got if event["type"] == "response.output_text.delta"]
    assert len(pieces) == 3
    (done,) = [event["item"] for event in got if event["type"] == "response.output_item.done"]
    assert "".join(pieces) == done["content"][0]["text"] == "Hello world"
    assert got[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        (reasoning_text("hm", "so"), "response.completed"),
        (call("f", {"a": 1}, preamble="first"), "response.completed"),
        (shell("ls"), "response.completed"),
        (items({"type": "web_search_call", "id": "ws_1"}), "response.completed"),
        (failed("context_length_exceeded", "too long"), "response.failed"),
        (incomplete("cut"), "response.incomplete"),
        (broken("half", "end"), "response.output_text.delta"),
        (call("f", {}, end="end"), "response.output_item.done"),
    ],
)
def test_an_answer_ends_as_its_kind_says(endpoint: ResponsesEndpoint, answer: Answer, last: str) -> None:
    """Each kind of answer ends with the event that it is for, and its ids are made from the request's number."""
    endpoint.script(answer)
    got = events(post(endpoint))
    assert got[0]["type"] == "response.created"
    assert got[0]["response"]["id"] == "resp_0001"
    assert got[-1]["type"] == last


@pytest.mark.parametrize("answer", [broken("half", "reset"), half_call("f", '{"a')])
def test_a_reset_is_no_clean_end(endpoint: ResponsesEndpoint, answer: Answer) -> None:
    """A connection that is reset fails at the reader, who can tell it from an end of the body."""
    endpoint.script(answer)
    with pytest.raises(ConnectionResetError):
        events(post(endpoint))


def test_an_error_is_plain_http(endpoint: ResponsesEndpoint) -> None:
    """A scripted HTTP error has its status and body, and no events."""
    endpoint.script(http_error(503, "busy"))
    response = post(endpoint)
    assert response.status == 503
    assert json.loads(response.read())["error"]["message"] == "busy"


def test_a_gate_holds_the_last_piece(endpoint: ResponsesEndpoint) -> None:
    """A text with a gate stops before its last piece until the gate is set."""
    gate = threading.Event()
    endpoint.script(text("abc", chunks=3, gate=gate))
    response = post(endpoint)
    seen = b""
    while b'"delta": "b"' not in seen:
        seen += response.read1()
    assert b'"delta": "c"' not in seen
    gate.set()
    assert b'"delta": "c"' in response.read()


@pytest.mark.parametrize("answer", [hang(headers=False), hang(headers=True), text("abc", gate=threading.Event())])
def test_closing_lets_go_what_hangs(answer: Answer) -> None:
    """At its end the endpoint drops the connections it still holds, so that nothing waits for ever."""
    ended = threading.Event()

    def ask() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            post(closing).read()
        ended.set()

    with ResponsesEndpoint() as closing:
        closing.script(answer)
        asking = threading.Thread(target=ask)
        asking.start()
        closing.wait_for_requests(1)
        assert not ended.is_set()
    asking.join(10)
    assert ended.is_set()


def test_requests_are_remembered_in_order(endpoint: ResponsesEndpoint) -> None:
    """What was asked can be looked at: number, path, headers in lower case, and the items."""
    for said in ("one", "two"):
        assert len(events(post(endpoint, said))) > 2
    asked = endpoint.wait_for_requests(2)
    assert [(request.number, request.input[0]["content"]) for request in asked] == [(1, "one"), (2, "two")]
    assert (asked[0].path, asked[0].headers["x-case"]) == ("/v1/responses", "Kept")


def test_a_script_can_be_taken_back(endpoint: ResponsesEndpoint) -> None:
    """Answers that nobody asked for are forgotten, and the endpoint's own text follows."""
    endpoint.script(http_error(500))
    endpoint.forget_script()
    assert post(endpoint).status == 200


def test_waiting_for_requests_is_bounded(endpoint: ResponsesEndpoint) -> None:
    """A request that does not come fails the one who waits for it."""
    with pytest.raises(TimeoutError, match="0 of 1"):
        endpoint.wait_for_requests(1, timeout=0.01)

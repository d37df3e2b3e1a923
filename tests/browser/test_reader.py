"""The reader of the stream tries again whatever a proxy answers, and its cursor follows what was applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Page

SSE: Final = "text/event-stream; charset=utf-8"

SETUP: Final = """async (at) => {
  const { Reader, waitMs } = await import("/reader.js");
  const t = (window.t = { calls: [], told: [], applied: [], answers: [], line: null, answer: null });
  window.fetch = async (url, { headers, signal }) => {
    t.calls.push(headers["Last-Event-ID"]);
    const { status, type, texts, open } = t.answers.shift() ?? { status: 503, type: "text/plain", texts: [] };
    if (status === 0) throw new TypeError("failed to fetch");
    const body = new ReadableStream({
      start(line) {
        t.line = line;
        for (const text of texts) line.enqueue(new TextEncoder().encode(text));
        if (!open) line.close();
        signal.addEventListener("abort", () => { try { line.error(signal.reason); } catch {} });
      },
    });
    return new Response(status === 204 ? null : body, { status, headers: { "content-type": type } });
  };
  t.reader = new Reader({
    url: "/stream", at,
    apply: async (frame) => {
      t.applied.push(frame);
      if (frame.data === "broken") throw new Error("broken");
      return t.answer;
    },
    tell: (state, about) => t.told.push([state, about.tries ?? about.status ?? null]),
  });
  t.waitMs = waitMs;
}"""


@pytest.fixture
def page(bare: Page) -> Iterator[Page]:
    bare.clock.install()
    bare.clock.pause_at(4_000_000_000_000)
    bare.evaluate(SETUP, "e.1")
    yield bare


def answer(status: int = 200, type_: str = SSE, texts: tuple[str, ...] = (), *, hold: bool = True) -> dict[str, Any]:
    return {"status": status, "type": type_, "texts": list(texts), "open": hold}


def start(page: Page, *answers: dict[str, Any]) -> None:
    page.evaluate("(answers) => { t.answers = answers; void t.reader.start(); }", list(answers))
    settle(page)


def settle(page: Page) -> None:
    """Let what is promised happen; streams need some rounds of the loop, and no time passes."""
    page.evaluate(
        "async () => { const c = new MessageChannel(); for (let i = 0; i < 20; i++)"
        " await new Promise((done) => { c.port1.onmessage = done; c.port2.postMessage(0); }); }"
    )


def wait(page: Page, ms: int) -> None:
    page.clock.run_for(ms)
    settle(page)


def test_frames_are_read_however_they_are_cut(page: Page) -> None:
    """Frames come whole and in order, cut anywhere, also inside of a character (P9)."""
    text = 'retry: 1000\n\nevent: frag\nid: e.2\ndata: ["é😀"]\n\n: ping\n\nevent: frag\ndata: 1\ndata: 2\n\n'
    start(page, answer())
    page.evaluate(
        "(text) => { for (const byte of new TextEncoder().encode(text)) t.line.enqueue(Uint8Array.of(byte)); }", text
    )
    for _ in range(10):
        settle(page)
    assert page.evaluate("t.applied") == [
        {"event": "frag", "data": '["é😀"]', "id": "e.2"},
        {"event": "frag", "data": "1\n2", "id": None},
    ]
    assert page.evaluate("t.reader.at") == "e.2"


def test_503_html_and_no_answer_are_waited_out(page: Page) -> None:
    """A server that answers 503, HTML or nothing as it starts again is tried until it streams."""
    start(page, answer(503, "text/plain"), answer(200, "text/html", ("<p>starting",)), answer(0), answer(204), answer())
    for tries in range(4):
        wait(page, 250 * 2**tries)
    assert page.evaluate("t.calls") == ["e.1"] * 5
    assert page.evaluate("t.told.at(-1)") == ["live", None]


@pytest.mark.parametrize("status", [401, 404, 410])
def test_gone_ends_the_reading(page: Page, status: int) -> None:
    """401, 404 and 410 end the reading for good: nobody hammers a server that has said no."""
    start(page, answer(status, "application/problem+json"))
    wait(page, 60_000)
    page.evaluate("() => { t.reader.retry(); void t.reader.start(); }")
    settle(page)
    assert page.evaluate("[t.calls.length, t.told.at(-1)]") == [1, ["stopped", status]]


def test_waiting_grows_and_is_spread(page: Page) -> None:
    """Tries wait 250 ms, doubling up to 8 s, each times a random half to one."""
    waits = page.evaluate("[0, 1, 2, 3, 4, 5, 9].map((n) => [t.waitMs(n, 0), t.waitMs(n, 1)])")
    assert waits == [[125, 250], [250, 500], [500, 1000], [1000, 2000], [2000, 4000], [4000, 8000], [4000, 8000]]


def test_a_silent_line_is_dropped(page: Page) -> None:
    """A connection that says nothing for 25 s is dead, whatever the network says, and is made anew; a ping keeps it."""
    start(page, answer(), answer())
    wait(page, 24_000)
    page.evaluate("t.line.enqueue(new TextEncoder().encode(': ping\\n\\n'))")
    settle(page)
    wait(page, 24_000)
    assert page.evaluate("t.calls.length") == 1
    wait(page, 2_000)
    assert page.evaluate("t.calls.length") == 2


def test_a_try_that_hangs_is_given_up(page: Page) -> None:
    """A request that is never answered does not hold the reader for ever."""
    page.evaluate(
        "() => { window.fetch = (url, { signal }) => new Promise((_, no) => { t.calls.push(0);"
        " signal.addEventListener('abort', () => no(signal.reason)); }); }"
    )
    start(page)
    wait(page, 26_000)
    assert page.evaluate("t.calls.length") == 2


def test_the_cursor_moves_after_what_was_applied(page: Page) -> None:
    """A frame that could not be applied is asked for again: the cursor stays before it (P9)."""
    start(page, answer(texts=("id: e.2\ndata: good\n\n", "id: e.3\ndata: broken\n\n")), answer())
    wait(page, 8_000)
    assert page.evaluate("t.calls") == ["e.1", "e.2"]


def test_a_page_taken_anew_goes_on_from_its_own_cursor(page: Page) -> None:
    """When applying answers a cursor (a reset), the reader connects again at once from there."""
    page.evaluate("t.answer = 'f.9'")
    start(page, answer(texts=("event: reset\ndata: {}\n\n",)), answer())
    settle(page)
    assert page.evaluate("t.calls") == ["e.1", "f.9"]


def test_coming_online_tries_at_once(page: Page) -> None:
    """A reader that waits tries at once when it is told to."""
    start(page, answer(503), answer(503), answer(503), answer(503), answer())
    for tries in range(3):
        wait(page, 250 * 2**tries)
    assert page.evaluate("[t.calls.length, t.told.at(-1)]") == [4, ["waiting", 4]]
    page.evaluate("t.reader.retry()")
    settle(page)
    assert page.evaluate("t.told.at(-1)") == ["live", None]


def test_a_paused_reader_lets_go_and_resumes(page: Page) -> None:
    """A pause ends the connection without a try after it; the start after it goes on from the cursor."""
    start(page, answer(texts=("id: e.5\ndata: x\n\n",)), answer())
    page.evaluate("t.reader.pause()")
    wait(page, 60_000)
    assert page.evaluate("[t.calls.length, t.told.at(-1)[0]]") == [1, "paused"]
    page.evaluate("() => { void t.reader.start(); }")
    settle(page)
    assert page.evaluate("t.calls") == ["e.1", "e.5"]


def test_a_frame_without_end_is_no_stream(page: Page) -> None:
    """A line that never ends a frame is dropped before it fills the memory (P11)."""
    start(page, answer(texts=("data: " + "x" * (1 << 21),)), answer())
    wait(page, 8_000)
    assert page.evaluate("t.calls.length") == 2


def test_what_a_date_cannot_tell_is_no_difference(bare: Page) -> None:
    """A Date header has whole seconds and may be old: clocks that agree as far as it tells are taken as equal."""
    script = """async () => {
      const { ahead } = await import("/reader.js");
      const now = Date.parse("2026-11-30T12:00:00Z") + 900;
      const at = (text) => ahead(`Mon, 30 Nov 2026 ${text} GMT`, now);
      return [at("12:00:00"), at("11:59:58"), at("12:00:10"), at("11:00:00")];
    }"""
    assert bare.evaluate(script) == [0, 0, 10_100, -3_599_900]

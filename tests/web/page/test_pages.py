"""The pages over HTTP, without a script: what is fetched and what its forms do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

import turnlog
from tests.runner.running import answer
from tests.web.page.dom import Node, Page
from turnlog.agents.protocol import AgentFactory
from turnlog.events.clock import SystemClock
from turnlog.events.kinds import Requested
from turnlog.limits import SUBMISSION_BYTES_MAX, TRACE_ROWS_SHOWN
from turnlog.testing.scripted_agent import ScriptedAgent
from turnlog.web.app import create_app
from turnlog.web.guard import Guard
from turnlog.web.paths import path_id
from turnlog.web.site import Site
from turnlog.web.work import Work


class Reader:
    """Somebody with a browser without scripts."""

    def __init__(self, log: turnlog.Log, client: httpx.AsyncClient) -> None:
        self.log, self.client = log, client
        self.page = Page("")
        self.url = ""

    async def open(self, path: str, status: int = 200) -> Page:
        response = await self.client.get(path, headers={"accept": "text/html"}, follow_redirects=True)
        assert response.status_code == status, response.text
        self.page, self.url = Page(response.text), str(response.url)
        return self.page

    async def send(self, form: Node, **fields: str) -> httpx.Response:
        """Send a form of the page as a browser does: its hidden fields and what was typed."""
        hidden = {
            node.attributes["name"]: node.attributes["value"]
            for node in form.walk()
            if node.attributes.get("type") == "hidden"
        }
        response = await self.client.post(form.attributes["action"], data=hidden | fields)
        assert response.status_code == 303, response.text
        await self.open(response.headers["location"])
        return response

    def form(self, ending: str) -> Node:
        found = [it for it in self.page.root.walk() if it.tag == "form" and it.attributes["action"].endswith(ending)]
        assert len(found) == 1
        return found[0]


@asynccontextmanager
async def reader(agent: AgentFactory | None = None) -> AsyncIterator[Reader]:
    def make() -> ScriptedAgent:
        return ScriptedAgent(answer("Hello *you*"))

    async with turnlog.open("memory://") as log:
        work = Work(log, {"a": agent or make}, agent="a")
        app = create_app(Site(log=log, work=work, clock=SystemClock()), guard=Guard(hosts=frozenset({"turnlog.test"})))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://turnlog.test") as client:
            yield Reader(log, client)
        await work.close()


def run(play: Callable[[Reader], Awaitable[None]], agent: AgentFactory | None = None) -> None:
    async def whole() -> None:
        async with reader(agent) as browser:
            await play(browser)

    asyncio.run(whole())


async def settled(log: turnlog.Log, thread: str) -> None:
    """Wait until every turn of a thread has ended."""
    async with asyncio.timeout(20):
        async for _ in log.watch(thread):
            if all(row.settled_at is not None for row in log.turns(thread).rows):
                return


def test_a_thread_begins_with_a_form() -> None:
    """A message on the first page begins a thread, whose page shows it and, later, its answer; the list names it."""

    async def play(browser: Reader) -> None:
        assert "No threads yet" in (await browser.open("/")).root.text
        await browser.send(browser.form("/t"), content="What is\r\nthis?")
        assert "What is\nthis?" in browser.page.thread.text
        (row,) = browser.log.threads().rows
        await settled(browser.log, row.thread)
        await browser.open(browser.url)
        assert "Hello you" in browser.page.thread.text
        assert browser.page.thread.attributes["data-at"] == f"{browser.log.epoch}.{browser.log.thread(row.thread).head}"
        assert "What is this?" in (await browser.open("/")).find(f"thread-{row.thread}").text
        assert "Answered" in browser.page.root.text

    run(play)


def test_a_form_sent_twice_asks_once() -> None:
    """A double click begins one thread with one turn, and asks once in a thread (C03)."""

    async def play(browser: Reader) -> None:
        await browser.open("/")
        form = browser.form("/t")
        await browser.send(form, content="hello")
        await browser.send(form, content="hello")
        (row,) = browser.log.threads().rows
        form = browser.form("/turns")
        await browser.send(form, content="and then?", when_busy="queue")
        await browser.send(form, content="and then?", when_busy="queue")
        assert len(browser.log.turns(row.thread).rows) == 2

    run(play)


def test_stop_and_retry() -> None:
    """A running turn is stopped, and asked again, by the forms that stand beside it; nothing of it is lost."""
    gate = asyncio.Event

    async def play(browser: Reader) -> None:
        await browser.open("/")
        await browser.send(browser.form("/t"), content="hello")
        (row,) = browser.log.threads().rows
        await browser.send(browser.form("/interrupt"))
        await settled(browser.log, row.thread)
        await browser.open(f"/t/{row.thread}")
        assert "You stopped it." in browser.page.thread.text
        await browser.send(browser.form("/retry"))
        assert "It was asked again" in browser.page.thread.text
        assert len(browser.log.turns(row.thread).rows) == 2

    run(play, lambda: ScriptedAgent(gate()))


def test_a_message_is_edited_and_taken_back() -> None:
    """A turn's own page has the forms that edit its message and take it back; the thread's page shows what became of
    it, and what was taken back is still read, without those forms (P9)."""

    async def play(browser: Reader) -> None:
        await browser.open("/")
        await browser.send(browser.form("/t"), content="\nfirst words")
        (row,) = browser.log.threads().rows
        await settled(browser.log, row.thread)
        (first,) = browser.log.turns(row.thread).rows
        await browser.open(f"/t/{path_id(row.thread)}/turn/{path_id(first.turn)}")
        assert any(node.tag == "textarea" and node.text.strip() == "first words" for node in browser.page.root.walk())
        await browser.send(browser.form("/turns"), content="better words")
        (second,) = [row for row in browser.log.turns(row.thread).rows if row.turn != first.turn]
        assert "better words" in browser.page.find(f"turn-{second.turn}").text
        assert browser.page.find(f"taken-{first.turn}").text == "1 turn taken backfirst words"
        await settled(browser.log, row.thread)
        second = browser.log.turns(row.thread).rows[0]
        assert second.edit_of == first.turn
        await browser.open(f"/t/{path_id(row.thread)}/turn/{path_id(second.turn)}")
        await browser.send(browser.form("/undo"))
        assert "2 turns taken back" in browser.page.thread.text
        await browser.open(f"/t/{path_id(row.thread)}/turn/{path_id(second.turn)}")
        assert "better words" in browser.page.thread.text and "no part of the conversation" in browser.page.root.text
        assert not [node for node in browser.page.root.walk() if node.tag == "textarea"]
        again = await browser.client.post(f"/t/{path_id(row.thread)}/turns/{path_id(second.turn)}/undo", data={})
        assert again.status_code == 409

    run(play)


def test_a_thread_is_copied_renamed_and_pinned() -> None:
    """A copy goes on where its turn ended, once however often it is asked for; a title and a pin stand in the list."""

    async def play(browser: Reader) -> None:
        await browser.open("/")
        await browser.send(browser.form("/t"), content="question")
        (row,) = browser.log.threads().rows
        await settled(browser.log, row.thread)
        (turn,) = browser.log.turns(row.thread).rows
        await browser.open(f"/t/{path_id(row.thread)}/turn/{path_id(turn.turn)}")
        form = browser.form("/fork")
        for _ in range(2):
            await browser.send(form)
        assert "question" in browser.page.thread.text
        (copy,) = [each for each in browser.log.threads().rows if each.thread != row.thread]
        for _ in range(2):
            await browser.send(browser.form("/title"), title="Notes")
        await browser.send(browser.form("/pin"))
        assert (browser.log.thread(copy.thread).title, browser.log.thread(copy.thread).pinned) == ("Notes", True)
        assert [event.kind for event in browser.log.events(copy.thread)].count("thread_renamed") == 1
        assert "Pinned" in (await browser.open("/")).find(f"thread-{copy.thread}").text
        await browser.open(f"/t/{copy.thread}")
        await browser.send(browser.form("/pin"))
        assert not browser.log.thread(copy.thread).pinned

    run(play)


def test_a_page_of_before_takes_no_title_back() -> None:
    """Of a page that shows an older title and an older pin, each form sends its own: one takes nothing of the other
    back, and a title that is as it was shown is not saved over another one."""

    async def play(browser: Reader) -> None:
        await (await browser.log.submit("t", "question")).interrupt("failed")
        await browser.open("/t/t")
        title, pin = browser.form("/title"), browser.form("/pin")
        await browser.log.rename("t", "Another tab's")
        await browser.send(title, title="question")
        await browser.send(pin)
        assert (browser.log.thread("t").title, browser.log.thread("t").pinned) == ("Another tab's", True)
        await browser.send(title, title="A new one")
        assert (browser.log.thread("t").title, browser.log.thread("t").pinned) == ("A new one", True)
        head = browser.log.thread("t").head
        for given in ({"title": "A new one"}, {"title": "question", "shown": "question"}):
            await browser.client.post("/t/t/title", data=given)
        assert browser.log.thread("t").head == head

    run(play)


async def refused(browser: Reader, action: str, **fields: str) -> Node:
    """Send a form that is refused; the form with what was typed that stands on the page of the refusal."""
    response = await browser.client.post(action, data=fields, headers={"accept": "text/html"})
    assert response.status_code >= 400
    browser.page = Page(response.text)
    return browser.form(action)


def typed(form: Node) -> str:
    """What stands in a form's field for text."""
    (field,) = [it for it in form.walk() if it.tag == "textarea" or it.attributes.get("type") == "text"]
    return field.attributes.get("value", field.text.removeprefix("\n"))


WORDS = "better words\n<script>&amp;"


def test_a_refused_edit_keeps_its_words() -> None:
    """The page that refuses an edit has its text, and sends it again: as the edit it was where that may go well later,
    as a message of its own where what it was to replace is gone, once however often it is sent."""

    async def play(browser: Reader) -> None:
        turn = await browser.log.submit("t", "first words")
        await turn.interrupt("failed")
        later = await browser.log.submit("t", "later")
        fields = {"content": WORDS, "key": "k", "edit_of": turn.id}
        form = await refused(browser, "/t/t/turns", **fields)
        assert "still being written" in browser.page.root.text
        assert typed(form) == WORDS
        hidden = {it.attributes["name"]: it.attributes["value"] for it in form.walk() if it.tag == "input"}
        assert hidden == {"key": "k", "edit_of": turn.id}
        await later.interrupt("failed")
        await browser.log.truncate("t", turn.id)
        form = await refused(browser, "/t/t/turns", **fields)
        assert "already edited or taken back" in browser.page.root.text
        assert "Send as a new message" in form.text
        assert "/t/t" in [it.attributes.get("href") for it in browser.page.root.walk()]
        for _ in range(2):
            await browser.send(form, content=typed(form))
        assert WORDS in browser.page.thread.text
        assert len(browser.log.turns("t").rows) == 3

    run(play)


@pytest.mark.parametrize("path", ["/t", "/t/t/turns"])
def test_a_refused_message_keeps_its_words(path: str) -> None:
    """A message that is too long, and one whose key names another, stand whole on the page that refuses them, and are
    sent from there."""

    async def play(browser: Reader) -> None:
        long = "x" * (SUBMISSION_BYTES_MAX + 1)
        form = await refused(browser, path, content=long, key="k")
        assert typed(form) == long
        assert "Your message is too long" in browser.page.root.text
        await browser.send(form, content="first")
        form = await refused(browser, path, content=WORDS, key="k")
        assert typed(form) == WORDS
        await browser.send(form, content=typed(form))
        assert WORDS in browser.page.thread.text
        rows = [row for it in browser.log.threads().rows for row in browser.log.turns(it.thread).rows]
        assert sorted(row.preview for row in rows) == ["better words\n<script>&amp;", "first"]

    run(play)


def test_a_refused_title_keeps_its_words() -> None:
    """A title that is too long, or has more than a line, is refused in words for titles, and can be changed there."""

    async def play(browser: Reader) -> None:
        await (await browser.log.submit("t", "question")).interrupt("failed")
        for title, words in (("ü" * 201, "This title is too long: at most 200 characters"), ("a\u2028b", "one line")):
            form = await refused(browser, "/t/t/title", title=title, shown="question")
            assert typed(form) == title
            assert words in browser.page.root.text
            assert "bytes" not in browser.page.root.text
            await browser.send(form, title=words)
            assert browser.log.thread("t").title == words

    run(play)


def test_what_changes_a_message_stands_beside_it() -> None:
    """Each settled turn of a thread's page leads to the forms of its own page that edit it, take it back and fork it;
    `Edit` opens the form, and stands only beside what is text alone."""

    async def play(browser: Reader) -> None:
        file = {"name": "a.txt", "bytes": 3}
        await (await browser.log.submit("t", "words", turn="a")).interrupt("failed")
        await (await browser.log.submit("t", "words", turn="b", attachments=[file])).interrupt("failed")
        await browser.log.submit("t", "words", turn="c")
        page = await browser.open("/t/t")
        links = [it.attributes.get("href", "") for it in page.thread.walk()]
        assert [link for link in links if "#" in link] == [
            *(f"/t/t/turn/a{end}" for end in ("?edit#edited", "#undo", "#fork")),
            *(f"/t/t/turn/b{end}" for end in ("#undo", "#fork")),
        ]
        page = await browser.open("/t/t/turn/a?edit")
        assert page.find("edited").parent is browser.form("/t/t/turns")
        assert [it.attributes["open"] for it in page.root.walk() if it.tag == "details"] == [""]
        assert page.find("undo").parent is browser.form("/undo")
        assert page.find("fork").parent is browser.form("/fork")
        assert "more than text" in (await browser.open("/t/t/turn/b?edit")).root.text

    run(play)


def test_a_decision_is_made_by_a_form() -> None:
    """What a turn waits for is decided by the buttons of its notice, once: the first decision stands."""

    async def play(browser: Reader) -> None:
        turn = await browser.log.submit("t", "hello")
        await turn.start(agent="a")
        await turn.step("approval-1", kind="approval", title="May it?", status="waiting")
        page = await browser.open("/t/t")
        assert page.find("status").text == "An answer waits for your decision."
        forms = [it for it in page.root.walk() if it.tag == "form" and "decisions" in it.attributes["action"]]
        yes, no = forms
        refused = await browser.client.post(yes.attributes["action"], data={"value": "perhaps"})
        assert (refused.status_code, refused.json()["field"]) == (400, "value")
        await browser.send(yes)
        assert "Answering" in browser.page.thread.text
        await browser.send(no)
        again = await browser.client.post(
            no.attributes["action"], data={"value": "decline"}, headers={"accept": "application/json"}
        )
        assert again.status_code == 409
        decided = [it.body for it in browser.log.events("t") if isinstance(it.body, Requested)]
        assert [(it.approval, it.value, it.by) for it in decided] == [("approval-1", "accept", "the page")]
        await turn.interrupt("cancelled")
        await browser.send(yes)

    run(play)


def test_one_behind_another() -> None:
    """What is asked while an answer is written waits in line, and can be taken out of it."""

    async def play(browser: Reader) -> None:
        await browser.open("/")
        await browser.send(browser.form("/t"), content="first")
        await browser.send(browser.form("/turns"), content="second", when_busy="queue")
        assert "Waiting, next in line" in browser.page.thread.text
        (row,) = browser.log.threads().rows
        newest = browser.log.turns(row.thread).rows[0].turn
        await browser.send(browser.form(f"{path_id(newest)}/interrupt"))
        async with asyncio.timeout(20):  # the request is durable; who waits settles it
            async for _ in browser.log.watch(row.thread):
                if browser.log.turn_view(row.thread, newest).state == "interrupted":
                    break
        await browser.open(f"/t/{row.thread}")
        await browser.send(browser.form("/turns"), content="third", when_busy="replace")
        async with asyncio.timeout(20):
            async for _ in browser.log.watch(row.thread):
                if browser.log.turn_view(row.thread, browser.log.turns(row.thread).rows[-1].turn).reason == "cancelled":
                    break

    run(play, lambda: ScriptedAgent(asyncio.Event()))


def test_scripts_get_json() -> None:
    """The same form sent by a script is answered with what became of it."""

    async def play(browser: Reader) -> None:
        accept = {"accept": "application/json"}
        sent = await browser.client.post("/t", data={"key": "k", "content": "hello"}, headers=accept)
        assert sent.status_code == 202
        assert sent.json()["thread"] == "k"
        again = await browser.client.post("/t/k/turns", data={"key": "k", "content": "hello"}, headers=accept)
        assert again.json()["duplicate"] is True
        other = await browser.client.post("/t/k/turns", data={"key": "k", "content": "else"}, headers=accept)
        assert other.status_code == 409

    run(play)


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("/t", {"content": "x"}, "key"),
        ("/t", {"key": "k", "content": "  "}, "content"),
        ("/t/t/turns", {"content": "x", "when_busy": "maybe"}, "when_busy"),
        ("/t/t/turns", {"content": "x", "when_busy": "refuse"}, "when_busy"),
        ("/t/t/turns", {"key": "k", "content": ["x", "y"]}, "content"),
        ("/t/t/turns", {"content": "x", "model": "y"}, "model"),
        ("/t/..%2f/turns", {"content": "x"}, None),
    ],
)
def test_bad_forms_store_nothing(path: str, fields: dict[str, Any], field: str | None) -> None:
    """A form that no page of ours has is refused with the name of what is wrong, and nothing is stored."""

    async def play(browser: Reader) -> None:
        response = await browser.client.post(path, data=fields)
        assert response.status_code in (400, 404)
        assert field is None or response.json()["field"] == field
        assert not browser.log.threads().rows

    run(play)


@pytest.mark.parametrize(
    "thread", ["../x", "..", "/etc/x", "a/b", "a\\b", "a\n", "-rf", "%2e%2e", "\x01", "\ud83d", "x" * 1_000]
)
def test_any_id_has_a_page(thread: str) -> None:
    """Every id of a thread and a turn leads to its own pages (C33)."""

    async def play(browser: Reader) -> None:
        turn = await browser.log.submit(thread, "hello", turn=thread[:200])
        await turn.start(agent="a")
        await turn.step("s", kind="tool", name="look", status="succeeded")
        await turn.complete()
        await browser.open(f"/t/{path_id(thread)}")
        links = [node.attributes["href"] for node in browser.page.thread.walk() if "href" in node.attributes]
        (source,) = [it.attributes["data-src"] for it in browser.page.thread.walk() if "data-src" in it.attributes]
        for link in links:
            assert "look" in (await browser.open(link)).thread.text
        assert "look" in (await browser.client.get(source)).text

    run(play)


def test_a_long_trace_has_pages() -> None:
    """The pages of a turn show each row of its trace once, and where one belongs whose parent is elsewhere."""

    async def play(browser: Reader) -> None:
        turn = await browser.log.submit("t", "hello")
        await turn.start(agent="a")
        await turn.step("agent", kind="subagent", name="explorer", status="running")
        for number in range(450):
            await turn.step(f"s{number}", kind="tool", name=f"look{number};", parent="agent", status="succeeded")
        await turn.complete()
        texts, link = [], f"/t/t/turn/{turn.id}"
        while link:
            page = await browser.open(link)
            texts.append(page.root.text)
            link = next((it.attributes["href"] for it in page.root.walk() if it.attributes.get("rel") == "next"), "")
        assert len(texts) == 3
        assert ["".join(texts).count(f"look{number};") for number in range(450)] == [1] * 450
        assert "in explorer" not in texts[0]
        assert texts[1].count("in explorer") == TRACE_ROWS_SHOWN
        rows = Page((await browser.client.get(f"/t/t/turn/{turn.id}/trace")).text)
        assert sum(it.attributes.get("class", "").startswith("step ") for it in rows.root.walk()) == TRACE_ROWS_SHOWN
        assert "251 more steps" in rows.root.text
        await browser.open(f"/t/t/turn/{turn.id}?from=5000", 400)

    run(play)


def test_the_stream_begins_where_it_can() -> None:
    """A cursor of another store or of the future is answered with `reset`, what is no cursor with an error."""

    async def play(browser: Reader) -> None:
        await browser.log.submit("t", "hello")
        head = f"{browser.log.epoch}.2"
        for cursor, reason in (("other.1", "epoch"), (f"{browser.log.epoch}.9", "future")):
            response = await browser.client.get("/t/t/stream", headers={"last-event-id": cursor})
            assert f'event: reset\ndata: {{"reason":"{reason}","head":"{head}"}}' in response.text
        assert (await browser.client.get("/t/t/stream?after=x")).status_code == 400
        assert (await browser.client.get("/t/none/stream")).status_code == 404

    run(play)


def test_files_are_fetched_once() -> None:
    """A browser that has a file is told that it has not changed; a name that is no file is not looked for."""

    async def play(browser: Reader) -> None:
        first = await browser.client.get("/static/page.js")
        assert first.headers["content-type"].startswith("text/javascript")
        again = await browser.client.get("/static/page.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for name in ("..%2fpages.py", "none.js", "__init__.py"):
            assert (await browser.client.get(f"/static/{name}")).status_code == 404

    run(play)


def test_what_is_not_there_says_so() -> None:
    """An unknown thread or turn is a page that says so, with the way back."""

    async def play(browser: Reader) -> None:
        page = await browser.open("/t/none", 404)
        assert "There is no such thread" in page.root.text
        await browser.log.submit("t", "hello")
        assert "There is no such turn" in (await browser.open("/t/t/turn/none", 404)).root.text
        page = await browser.open("/t/t?before=AA", 400)
        assert page.root.text.count("is not one that this server has made") == 2  # the tab's title, and the heading

    run(play)


def test_damage_stands_at_its_place() -> None:
    """A message of no turn stands between the turns where it was written."""

    async def play(browser: Reader) -> None:
        items: list[Any] = ["one", "two"]
        for number, text in enumerate(items):
            turn = await browser.log.submit("t", f"question {number}")
            await turn.interrupt("not_started")
            await browser.log.append_message(
                "t", {"type": "message", "role": "assistant", "content": f"aside *{text}*"}
            )
        text = (await browser.open("/t/t")).thread.text
        assert text.index("question 0") < text.index("aside one") < text.index("question 1") < text.index("aside two")

    run(play)

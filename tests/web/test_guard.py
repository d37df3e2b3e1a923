"""The guard: nothing from another site, nothing without the token, nothing too large, and headers on every answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from turnlog.limits import REQUEST_BYTES_MAX, REQUEST_DISCARDED_BYTES_MAX
from turnlog.web import guard as guard_module
from turnlog.web.guard import Guard, loopback_hosts
from turnlog.web.http_problems import HEADERS

from .sites import GUARD, HOST, app_of, asked

TOKEN = "a-token-of-this-test"
LOCKED = Guard(hosts=None, token=TOKEN, cookie="turnlog-8765")
JSON = {"content-type": "application/json"}


async def echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


def api(guard: Guard = GUARD) -> Any:
    return app_of(echo, guard=guard, path="/api/{rest:path}", methods=("GET", "POST"))


def page(guard: Guard = GUARD) -> Any:
    return app_of(echo, guard=guard, path="/{rest:path}", methods=("GET", "POST"))


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [HOST, "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_own_names_are_let_in(host: str) -> None:
    """A request that names this machine's loopback address and our port is answered."""
    assert asked(api(), "GET", "/api/x", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1",
        "127.0.0.1:9",
        "localhost:8765.evil.example",
        "",
        "0.0.0.0:8765",
    ],
)
@pytest.mark.parametrize("path", ["/api/x", "/healthz"])
def test_other_names_are_refused(host: str, path: str) -> None:
    """A name that somebody else's DNS points at this machine opens nothing, health and reads included."""
    assert asked(api(), "GET", path, headers={"host": host}).status_code == 421


def test_two_names_are_refused() -> None:
    """A request with two Host headers is refused, as others might read the other one."""
    headers = [("host", HOST), ("host", "evil.example")]
    assert asked(api(), "GET", "/api/x", headers=headers).status_code == 421


def test_port_80_is_left_out_by_browsers() -> None:
    """At the default port of HTTP the name alone is ours."""
    assert loopback_hosts(80) >= {"localhost", "localhost:80", "127.0.0.1", "[::1]"}
    assert "localhost" not in loopback_hosts(8765)


# --- origins ---------------------------------------------------------------------------------------------------

FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:8765"},
    {"origin": "http://127.0.0.1:3000"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
]


@pytest.mark.parametrize(
    "headers", [*FOREIGN, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}]
)
@pytest.mark.parametrize("path", ["/api/x", "/t/x"])
def test_other_sites_start_nothing(headers: dict[str, str], path: str) -> None:
    """No request that a browser sends for another site changes anything, whatever it looks like."""
    types = {"content-type": "application/json" if path.startswith("/api") else "application/x-www-form-urlencoded"}
    assert asked(page(), "POST", path, headers={**types, **headers}, content=b"{}").status_code == 403


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", ["/api/x", "/t/x/stream"])
def test_other_sites_read_nothing(headers: dict[str, str], path: str) -> None:
    """No page of another site can have a browser read documents or streams for it."""
    assert asked(page(), "GET", path, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"http://{HOST}"},
        {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
def test_own_pages_and_programs_may(headers: dict[str, str]) -> None:
    """Our own pages, a person's own typing, and programs that are no browsers are let in."""
    assert asked(api(), "POST", "/api/x", headers={**JSON, **headers}, content=b"{}").status_code == 200


def test_link_on_another_site_leads_here() -> None:
    """A person may follow a link from anywhere to a page."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert asked(page(), "GET", "/t/x", headers=headers).status_code == 200


@pytest.mark.parametrize("name", ["origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "content-type"])
@pytest.mark.parametrize("first", [0, 1])
def test_doubled_headers_are_refused(name: str, first: int) -> None:
    """A header by which a request is let in may not be there twice, as others might read the other one."""
    good = {"origin": f"http://{HOST}", "content-type": "application/json"}.get(name, "same-origin")
    values = [good, "navigate" if name == "sec-fetch-mode" else "cross-site"]
    headers = [(name, values[first]), (name, values[1 - first]), *((JSON.items()) if name != "content-type" else ())]
    assert asked(api(), "POST", "/api/x", headers=headers, content=b"{}").status_code == 400


# --- the token -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer \xe4".encode("latin-1")},
        {"cookie": f"turnlog-8765={TOKEN}"},
        {"cookie": "turnlog-8765="},
    ],
)
@pytest.mark.parametrize("path", ["/api/x", "/metrics", "/", "/healthz/x", "/?token=wrong", "/api/x?token=" + TOKEN])
def test_nobody_comes_in_without_the_token(headers: dict[str, Any], path: str) -> None:
    """Where a token is set, everything but the health of the server is closed to who does not show it."""
    answer = asked(page(LOCKED), "GET", path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_host_header_opens_no_path() -> None:
    """A Host header that reads like a path does not make a closed route look like an open one."""
    for host in ("x/healthz?", "x/healthz#", "x/?token="):
        assert asked(api(LOCKED), "GET", "/api/x", headers={"host": host}).status_code == 401


def test_bearer_and_health() -> None:
    """Who shows the token as a bearer is let in under any name; the health of the server is told to anybody."""
    headers = {"authorization": f"bearer {TOKEN}", "host": "chat.example"}
    assert asked(api(LOCKED), "GET", "/api/x", headers=headers).status_code == 200
    assert asked(app_of(echo, guard=LOCKED, path="/healthz"), "GET", "/healthz").status_code == 200


def test_token_becomes_a_cookie_once() -> None:
    """`/?token=` gives a cookie that scripts and other sites cannot use and that does not tell the token, and leads to
    the same page without it."""
    app = page(LOCKED)
    admitted = asked(app, "GET", f"/?token={TOKEN}&a=1")
    assert (admitted.status_code, admitted.headers["location"]) == (303, "/?a=1")
    cookie = admitted.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    name, _, value = cookie.partition(";")[0].partition("=")
    assert asked(app, "GET", "/api/x", headers={"cookie": f"{name}={value}"}).status_code == 200
    assert asked(app, "GET", "/api/x", headers={"cookie": f"{name}={value}x"}).status_code == 401


def test_cookie_does_not_help_another_site() -> None:
    """A cookie alone opens nothing to a request from another site."""
    app = page(LOCKED)
    cookie = asked(app, "GET", f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    headers = {**JSON, "cookie": cookie, "origin": "http://evil.example"}
    assert asked(app, "POST", "/api/x", headers=headers, content=b"{}").status_code == 403


# --- bodies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/api/x", "application/json", 200),
        ("/api/x", "Application/JSON; charset=utf-8", 200),
        ("/api/x", "text/plain", 415),
        ("/api/x", "application/x-www-form-urlencoded", 415),
        ("/api/x", "", 415),
        ("/t", "application/x-www-form-urlencoded", 200),
        ("/t/x/turns", "application/x-www-form-urlencoded", 200),
        ("/t/x/turns", "multipart/form-data; boundary=x", 415),
        ("/t/x/turns", "application/json", 415),
        ("/tx", "application/x-www-form-urlencoded", 415),
    ],
)
def test_bodies_have_their_type(path: str, given: str, status: int) -> None:
    """The API takes JSON only, which no form can send; the pages take forms only."""
    headers = {"content-type": given} if given else {}
    assert asked(page(), "POST", path, headers=headers, content=b"{}").status_code == status


def test_empty_body_needs_no_type() -> None:
    """A POST without a body needs not say what it is."""
    assert asked(api(), "POST", "/api/x").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("over", [0, 1, REQUEST_DISCARDED_BYTES_MAX])
def test_body_is_bounded(over: int, chunked: bool) -> None:
    """A body over the limit is refused with the limit's name, whether or not its length was told before (P11)."""

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 50_000):
            yield body[at : at + 50_000]

    body = b"x" * (REQUEST_BYTES_MAX + over)
    answer = asked(api(), "POST", "/api/x", headers=JSON, content=parts() if chunked else body)
    assert answer.status_code == (413 if over else 200)
    assert ("REQUEST_BYTES_MAX" in answer.text) is bool(over)


def test_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not arrive in time is refused, and the route never hears of it (P11)."""
    monkeypatch.setattr(guard_module, "REQUEST_S", 0.01)

    async def parts() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answer = asked(api(), "POST", "/api/x", headers=JSON, content=parts())
    assert answer.status_code == 408
    assert answer.headers["connection"] == "close"


def test_body_on_its_way_does_not_keep_a_server_from_ending() -> None:
    """When the server stops, a body that is not whole yet is refused at once as by a server that is away for a moment,
    the connection ends, and the route never hears of it."""
    reached = []

    async def route(_request: Request) -> Response:
        reached.append(1)
        return Response()

    app = app_of(route, path="/api/x", methods=("POST",))

    async def parts() -> AsyncIterator[bytes]:
        yield b"{"
        app.state.site.stop.set()
        await asyncio.Event().wait()

    answer = asked(app, "POST", "/api/x", headers=JSON, content=parts())
    assert (answer.status_code, answer.headers["connection"], answer.headers["retry-after"]) == (503, "close", "1")
    assert answer.headers["content-type"] == "application/problem+json"
    assert reached == []


def test_body_that_nobody_reads_ends_the_connection() -> None:
    """An answer that comes before the body was read closes the connection, so that nobody sends for ever."""
    refused = asked(api(), "POST", "/api/x", headers={**JSON, "origin": "null"}, content=b"{}")
    read = asked(api(), "POST", "/api/x", headers=JSON, content=b"{}")
    got = asked(api(), "GET", "/api/x", content=b"{}")
    assert [answer.headers.get("connection") for answer in (refused, read, got)] == ["close", None, "close"]


def scope_of(**fields: Any) -> dict[str, Any]:
    base = {"type": "http", "method": "POST", "path": "/api/x", "query_string": b"", "raw_path": b"/api/x"}
    headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
    return {
        **base,
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "server": None,
        "client": None,
        **fields,
    }


def test_client_that_leaves_before_its_request_is_whole() -> None:
    """A request whose client goes away in its middle reaches no route, and nothing is answered."""
    reached, sent = [], []

    async def route(_request: Request) -> Response:
        reached.append(1)
        return Response()

    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    app = app_of(route, path="/api/x", methods=("POST",))
    asyncio.run(app(scope_of(), receive, send))
    assert (reached, sent) == ([], [])


def test_routes_still_hear_that_the_client_left() -> None:
    """After the whole body a route is told of the client's going, as a stream must be."""

    async def route(request: Request) -> Response:
        assert await request.body() == b"{}"
        return PlainTextResponse(str(await request.is_disconnected()))

    answers: list[Any] = []
    messages = iter([{"type": "http.request", "body": b"{}"}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        answers.append(message)

    asyncio.run(app_of(route, path="/api/x", methods=("POST",))(scope_of(), receive, send))
    assert answers[-1]["body"] == b"True"


# --- answers ---------------------------------------------------------------------------------------------------


def test_every_answer_has_the_headers() -> None:
    """Pages, documents, refusals and defects alike say that nothing may be framed, guessed, embedded, kept or run."""

    async def defect(_request: Request) -> Response:
        raise ZeroDivisionError

    logging.getLogger("turnlog").setLevel(logging.CRITICAL)
    try:
        answers = [
            asked(page(), "GET", "/"),
            asked(api(), "GET", "/nowhere"),
            asked(api(), "DELETE", "/api/x"),
            asked(page(), "GET", "/", headers={"host": "evil.example"}),
            asked(page(LOCKED), "GET", "/"),
            asked(page(LOCKED), "GET", f"/?token={TOKEN}"),
            asked(app_of(defect), "GET", "/"),
        ]
    finally:
        logging.getLogger("turnlog").setLevel(logging.NOTSET)
    assert [answer.status_code for answer in answers] == [200, 404, 405, 421, 401, 303, 500]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_content_security_policy_is_strict() -> None:
    """No page may run or style inline, load from elsewhere, be framed, or make HTML of text but by our one policy."""
    policy = {part.split()[0]: part.split()[1:] for part in HEADERS["content-security-policy"].split("; ")}
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == ["'self'"]
    assert policy["img-src"] == ["'self'", "data:"]
    assert (policy["require-trusted-types-for"], policy["trusted-types"]) == (["'script'"], ["turnlog"])


def test_route_may_set_its_own_header() -> None:
    """A header that a route sets itself stands, and stands alone."""

    async def route(_request: Request) -> Response:
        return Response(headers={"Cache-Control": "max-age=60"})

    assert asked(app_of(route), "GET", "/").headers.get_list("cache-control") == ["max-age=60"]


def test_answers_are_counted_by_known_methods() -> None:
    """Answers are counted by method and status, and what a client invents as a method makes no new count (P11)."""
    app = api()
    for method in ("GET", "BREW", "MAKE", "FOO"):
        asked(app, method, "/api/x")
    assert app.state.site.counts.answers == {("GET", 200): 1, ("other", 405): 3}


def test_web_sockets_are_refused() -> None:
    """A WebSocket, whose beginning no origin check of a browser guards, is closed before it opens."""
    sent = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(api()(scope_of(type="websocket", scheme="ws"), receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]

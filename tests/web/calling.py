"""A client of the API, in the process: every answer it gets is checked against the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from tests.runner.running import answer
from turnlog.agents.protocol import AgentFactory
from turnlog.events.clock import SystemClock
from turnlog.journal.log import Log
from turnlog.testing.scripted_agent import Act, ScriptedAgent
from turnlog.web.api.openapi import openapi_document
from turnlog.web.app import create_app
from turnlog.web.guard import Guard
from turnlog.web.paths import path_id
from turnlog.web.site import Site
from turnlog.web.work import Work


def strict(schema: Any) -> Any:
    """The same schema for a server's own tests: a field that the document does not name is a mistake."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    narrow = {name: strict(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        narrow.setdefault("additionalProperties", False)
    return narrow


@cache
def document() -> dict[str, Any]:
    return openapi_document()


@cache
def validator(name: str) -> Draft202012Validator:
    """The validator of a named schema."""
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": strict(document()["components"])}
    )


def check_value(name: str, value: Any) -> None:
    """Assert that a value is of the schema of that name."""
    error = next(iter(validator(name).iter_errors(value)), None)
    assert error is None, f"{name}: {error.json_path}: {error.message}"


def check_answer(method: str, path: str, response: httpx.Response) -> None:
    """Assert that status, content type and body of an answer are what the document says of the request.

    A path or method that is not in the document is answered with a problem.
    """
    operation = operation_of(method, path)
    media = response.headers.get("content-type", "").partition(";")[0]
    answers = {} if operation is None else operation["responses"]
    if operation is None:
        assert response.status_code in (404, 405), response.text
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    else:
        assert str(response.status_code) in answers, f"{method} {path}: {response.status_code} {response.text}"
        content = answers[str(response.status_code)].get("content", {})
    if method == "HEAD" or not content:
        assert response.content == b""
        return
    assert media in content, f"{method} {path}: {media}"
    if media.endswith("json"):
        check_value(content[media]["schema"]["$ref"].rpartition("/")[2], json.loads(response.content))


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """What the document says of a request, None for what it does not know. A path without a parameter goes first."""
    method = "get" if method == "HEAD" else method.lower()
    for template in sorted(document()["paths"], key=lambda template: template.count("{")):
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
            found: dict[str, Any] | None = document()["paths"][template].get(method)
            return found
    return None


class Api:
    """Calls the API of one log. `agents` are those of its work, the first one the default."""

    def __init__(self, log: Log, agents: Mapping[str, AgentFactory]) -> None:
        self.log = log
        self.work = Work(log, agents, agent=next(iter(agents)))
        self.site = Site(log=log, work=self.work, clock=SystemClock())
        app = create_app(self.site, guard=Guard(hosts=frozenset({"turnlog.test"})))
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://turnlog.test")

    async def call(self, method: str, path: str, status: int = 200, **request: Any) -> httpx.Response:
        """One request, its answer checked; it must have the `status`."""
        response = await self._client.request(method, path, **request)
        url = response.request.url
        check_answer(method, url.raw_path.decode().partition("?")[0], response)
        assert response.status_code == status, f"{method} {url}: {response.status_code} {response.text}"
        if response.status_code == 202 and response.request.content:
            body = operation_of(method, url.path)["requestBody"]["content"]["application/json"]["schema"]  # type: ignore[index]
            check_value(body["$ref"].rpartition("/")[2], json.loads(response.request.content))
        return response

    async def get(self, path: str, status: int = 200, params: Any = None, **query: Any) -> Any:
        """The document at a path."""
        return (await self.call("GET", path, status, params={**(params or {}), **query} or None)).json()

    async def post(self, path: str, body: Any = None, status: int = 202) -> Any:
        """What a `POST` is answered."""
        content = json.dumps({} if body is None else body)  # which, other than the client's own, writes lone surrogates
        headers = {"content-type": "application/json"}
        return (await self.call("POST", path, status, content=content, headers=headers)).json()

    async def submit(self, thread: str, content: Any, status: int = 202, **rest: Any) -> Any:
        """Submit a message."""
        return await self.post(f"/api/threads/{path_id(thread)}/turns", {"content": content, **rest}, status)

    async def settled(self, thread: str, turn: str) -> Any:
        """The row of a turn, once it has ended."""
        async for event in self.log.follow(thread):
            if getattr(event, "kind", "") in ("completed", "interrupted") and event.turn == turn:
                break
        return (await self.get(f"/api/threads/{path_id(thread)}/turns/{path_id(turn)}"))["turn"]

    async def aclose(self) -> None:
        """Settle what runs."""
        await self.work.close()
        await self._client.aclose()


def plays(*script: Act) -> AgentFactory:
    """Makes agents that play a script."""
    return lambda: ScriptedAgent(*(script or (answer("Hello."),)))


@asynccontextmanager
async def calling(log: Log, *script: Act, **agents: AgentFactory) -> AsyncIterator[Api]:
    """The API of a log whose default agent plays `script`; without one it says "Hello."."""
    api = Api(log, {"scripted": plays(*script), **agents})
    try:
        yield api
    finally:
        await api.aclose()

"""The OpenAPI document is valid, complete, and true of the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import validate
from starlette.routing import Route

import turnlog
from tests.runner.running import run
from tests.web.calling import Api, calling, document, plays
from turnlog.journal.log import Log
from turnlog.web.app import create_app
from turnlog.web.guard import Guard

PAGES = ("/t", "/static")
"""Where pages and what belongs to them live: they are for people, not for clients."""


@pytest.fixture
def log() -> Iterator[Log]:
    with turnlog.open("memory://") as opened:
        yield opened


def schemas_in(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema that stands in a part of the document, with its place."""
    if isinstance(part, dict):
        for name, inner in part.items():
            here = f"{path}/{name}"
            if name in ("schema", "items", "additionalProperties") and isinstance(inner, dict):
                yield here, inner
            if name in ("properties", "schemas") and isinstance(inner, dict):
                yield from ((f"{here}/{field}", schema) for field, schema in inner.items())
            yield from schemas_in(inner, here)
    elif isinstance(part, list):
        for at, inner in enumerate(part):
            yield from schemas_in(inner, f"{path}/{at}")


def test_the_document_is_valid_openapi() -> None:
    """The document is OpenAPI 3.1."""
    validate(document())


def test_no_schema_is_untyped() -> None:
    """Each schema says what it describes: no object of any fields but the two named ones, no empty schema."""
    found = []
    for place, schema in schemas_in(document()):
        says = {"$ref", "type", "anyOf", "enum", "const"} & set(schema)
        if not says:
            found.append(f"{place}: says nothing")
        if schema.get("type") == "object" and not {"properties", "additionalProperties"} & set(schema):
            found.append(f"{place}: an object of any fields")
        if schema.get("type") == "array" and not {"items", "prefixItems"} & set(schema):
            found.append(f"{place}: a list of anything")
    assert not found, "\n".join(found)


def test_every_reference_has_a_schema_and_every_schema_a_reference() -> None:
    """No `$ref` leads nowhere, and no schema is described that nothing is of."""
    named = set(document()["components"]["schemas"])
    used = {inner["$ref"].rpartition("/")[2] for inner in objects_in(document()) if "$ref" in inner}
    assert used == named


def objects_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from objects_in(inner)


def test_the_document_names_every_route_and_no_other(log: Log) -> None:
    """What the application answers and what the document describes is the same, pages set aside."""

    async def routed() -> set[tuple[str, str]]:
        api = Api(log, {"scripted": plays()})
        app = create_app(api.site, guard=Guard(hosts=None))
        await api.aclose()
        return {
            (method, route.path)
            for route in app.routes
            if isinstance(route, Route) and route.path != "/" and not route.path.startswith(PAGES)
            for method in (route.methods or set()) - {"HEAD"}
        }

    documented = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    assert run(routed()) == documented


def test_every_operation_names_what_any_request_may_be_answered() -> None:
    """What the connection, the guard and the store may answer whatever is asked is named for each operation; a token is
    asked for by all but the health."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            statuses = set(operation["responses"])
            assert statuses >= {"400", "403", "408", "421", "431", "500", "503"}, (method, path)
            assert ("401" in statuses) is (path != "/healthz") is ("security" not in operation)
            assert ("415" in statuses) is ("413" in statuses) is (method in ("post", "patch"))


def test_the_document_is_served_and_known_by_its_tag(log: Log) -> None:
    """`/openapi.json` is the document; who has it is told so."""

    async def main() -> None:
        async with calling(log) as api:
            response = await api.call("GET", "/openapi.json")
            assert response.json() == document()
            tag = response.headers["etag"]
            await api.call("GET", "/openapi.json", 304, headers={"if-none-match": f'"other", W/{tag}'})
            await api.call("GET", "/openapi.json", 304, headers={"if-none-match": "*"})
            await api.call("GET", "/openapi.json", headers={"if-none-match": '"other"'})

    run(main())


def test_health_and_counts_are_what_the_document_says(log: Log) -> None:
    """`/healthz` and `/metrics` answer as described."""

    async def main() -> None:
        async with calling(log) as api:
            assert (await api.get("/healthz"))["status"] == "ok"
            assert "turnlog_turns_running" in (await api.call("GET", "/metrics")).text

    run(main())

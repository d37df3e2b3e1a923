"""The OpenAPI 3.1 document, made of the table of operations and of the shapes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from turnlog.events.codec import encode_json
from turnlog.web.api.operation import JSON, PATH_WORDS, Operation, Parameter
from turnlog.web.api.operations import OPERATIONS
from turnlog.web.api.schemas import PROBLEM, ref, schemas
from turnlog.web.http_problems import PROBLEM_JSON
from turnlog.web.paths import SEGMENT

_ABOUT: Final = """\
Documents and streams of one log. Fields are only ever added: let pass those you do not know. Every field of a \
document is there, null where there is no value. Times are RFC 3339 in UTC with microseconds. What is refused is \
answered with a problem document (RFC 9457), which names the field or the facts; an unknown parameter or field of a \
body is refused, too. A path that is not here is answered 404, and a method that a path does not have 405, with all \
that it has in `Allow`.

`POST` takes `application/json`. A cursor `epoch.seq` is a position in a thread: lists, traces, transcripts and \
histories carry one as `at`, from which the thread's events can be followed without missing anything."""

_PROBLEMS: Final = {
    400: "The request is not valid; `field` names what is wrong, if it is HTTP at all. Nothing was stored.",
    401: "This server needs its token.",
    403: "The request comes from another site.",
    404: "There is no such thread, turn or item.",
    408: "The request did not arrive in time.",
    409: "The state of the log does not allow it; nothing was stored.",
    413: "The request is larger than a limit, which is named. Nothing was stored.",
    415: "The body must be `application/json`.",
    421: "The request does not name this server as its host.",
    431: "The request's line and headers are larger than a limit.",
    500: "The server met a defect, or a record that is damaged.",
    503: "The store, or the server, cannot take it now; `Retry-After` says when to try again.",
}
"""What each status of a problem document means."""

_COMMON: Final = (400, 401, 403, 408, 421, 431, 500, 503)
"""Problems that any operation may answer with: before it is looked at by an operation, or when the store fails."""


@cache
def openapi_json() -> bytes:
    """The document as JSON."""
    return encode_json(openapi_document())


def openapi_document() -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "turnlog",
            "version": "1",
            "summary": "A flight recorder for AI agents",
            "description": _ABOUT,
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in OPERATIONS)],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where the server has one."}
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    problems = {*operation.problems, *_COMMON} - ({401} if operation.public else set())
    statuses = [*operation.answers, *sorted(problems)]
    document: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *map(_parameter, operation.query)],
        "responses": {str(status): _response(operation, status) for status in statuses},
    }
    if operation.public:
        document["security"] = []
    if operation.about:
        document["description"] = operation.about
    if operation.body is not None:
        content = {JSON: {"schema": ref(operation.body.__name__)}}
        document["requestBody"] = {"required": operation.body_required, "content": content}
    return document


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for word, about in PATH_WORDS.items():
        if f"{{{word}}}" in path:
            schema = {"type": "integer", "minimum": 0} if word == "seq" else {"type": "string", "pattern": SEGMENT}
            yield {"name": word, "in": "path", "required": True, "description": about, "schema": schema}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.about,
        "schema": msgspec.json.schema(parameter.type),
    }


def _response(operation: Operation, status: int) -> dict[str, Any]:
    answer = operation.answers.get(status)
    if answer is None:
        return {"description": _PROBLEMS[status], "content": {PROBLEM_JSON: {"schema": ref(PROBLEM)}}}
    content = {media: {"schema": _schema_of(shape)} for media, shape in answer.shapes.items()}
    return {"description": answer.about, **({"content": content} if content else {})}


def _schema_of(shape: Any) -> dict[str, Any]:
    return ref(shape if isinstance(shape, str) else shape.__name__)

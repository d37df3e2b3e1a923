"""Writes the generated parts of the documentation: `python docs/generate.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnlog.folds.states import STARTED, TERMINAL, TRANSITIONS, State
from turnlog.web.api.openapi import openapi_document

FOLDER = Path(__file__).parent

_HEAD = """\
# States of a turn

Generated from the table in `turnlog.folds.states` by `python docs/generate.py`; do not edit.

The journal refuses what is not in the table (`IllegalTransition`). An event that is on disk all the same is counted as
`illegal` in the turn's row and shown as late in its timeline; it changes nothing. Records of unknown kinds are no
transitions.
"""


def states_markdown() -> str:
    """The text of docs/states.md."""
    moves = [(before, kind, after) for (before, kind), after in TRANSITIONS.items() if before != after]
    stays: dict[State, list[str]] = {}
    for (before, kind), after in TRANSITIONS.items():
        if before == after:
            stays.setdefault(after, []).append(kind)
    return "\n".join([_HEAD, *_diagram(moves), *_table(), *_sets(stays)])


def _diagram(moves: list[tuple[State | None, str, State]]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {before or '[*]'} --> {after}: {kind}" for before, kind, after in moves]
    lines += [f"    {state} --> [*]" for state in sorted(TERMINAL)]
    return [*lines, "```", ""]


def _table() -> list[str]:
    lines = ["| in state | event | then |", "|---|---|---|"]
    lines += [f"| {before or 'none'} | `{kind}` | {after} |" for (before, kind), after in TRANSITIONS.items()]
    return [*lines, ""]


def _sets(stays: dict[State, list[str]]) -> list[str]:
    lines = [f"- While {state}, these change nothing of the state: {_names(kinds)}." for state, kinds in stays.items()]
    lines.append(f"- The agent may write in: {_names(sorted(STARTED))}.")
    lines.append(f"- Nothing follows: {_names(sorted(TERMINAL))}.")
    return [*lines, ""]


def _names(names: list[str] | list[State]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- the API ---------------------------------------------------------------------------------------------------

_API_HEAD = """\
# The API

Generated from the OpenAPI document of `turnlog.web.api.openapi` by `python docs/generate.py`; do not edit. A server
gives the same as `/openapi.json`.

%s

## Try it

These run against a server that `turnlog serve` started on this machine. Where it has a token, add
`-H "Authorization: Bearer $TURNLOG_TOKEN"`.

```sh
URL=http://127.0.0.1:8765
curl -s "$URL/healthz"
```

Submit a message. The answer comes when the message is durable; sending the same `key` again is the same turn.

```sh
curl -s -H "Content-Type: application/json" \\
    -d '{"content": "What is in this folder?", "key": "example-1", "turn": "example-turn"}' \\
    "$URL/api/threads/example/turns"
```

Follow it: what happened since the beginning, then everything as it becomes durable.

```sh
curl -sN -H "Accept: text/event-stream" "$URL/api/threads/example/events" | head -n 12
```

Read the trace, what a person reads, and what the next agent would be given.

```sh
curl -s "$URL/api/threads/example/turns/latest?limit=5"
curl -s "$URL/api/threads/example/transcript"
curl -s "$URL/api/threads/example/history?profile=responses"
```

Ask for its end (409 when it has ended by itself), then list the newest turn of each thread.

```sh
curl -s -X POST "$URL/api/threads/example/turns/example-turn/interrupt"
curl -s "$URL/api/turns?latest=1"
```

An id with other characters than letters, digits, `_`, `-` and `.` is written `~` and the base64url of its UTF-8.

```sh
ID="~$(printf %%s "plans/2026 – draft" | base64 | tr "+/" "-_" | tr -d "=\\n")"
curl -s -H "Content-Type: application/json" -d '{"content": "Is this a plan?"}' "$URL/api/threads/$ID/turns"
curl -s "$URL/api/threads/$ID"
```
"""

_EVENT_SCHEMAS = ("Body", "Event")
"""How schemas are named that docs/format.md describes already."""


def api_markdown() -> str:
    """The text of docs/api.md."""
    document = openapi_document()
    lines = [_API_HEAD % document["info"]["description"], "## Requests", "", *_common(document), ""]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += _request(f"{method.upper()} {path}", operation)
    lines += ["## Shapes", "", "Kinds of events and their bodies stand in [format.md](format.md).", ""]
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith(_EVENT_SCHEMAS):
            lines += _shape(name, schema)
    return "\n".join(lines)


def _common(document: dict[str, Any]) -> Iterator[str]:
    """What all requests share: the words of their paths, and what problems mean."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    words = {one["name"]: one for operation in operations for one in operation["parameters"] if one["in"] == "path"}
    yield from ("| in a path | type | |", "|---|---|---|")
    yield from (f"| `{name}` | {_type(one['schema'])} | {one['description']} |" for name, one in words.items())
    problems = {status: answer for operation in operations for status, answer in _problems(operation)}
    yield from ("", "| problem | means |", "|---|---|")
    yield from (f"| {status} | {answer['description']} |" for status, answer in sorted(problems.items()))


def _problems(operation: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(status, answer) for status, answer in operation["responses"].items() if status >= "400"]


def _request(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {title}", "", f"{operation['summary']}.", "")
    if "description" in operation:
        yield from (operation["description"], "")
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {one['description']} |"
        for one in operation["parameters"]
        if one["in"] != "path"
    ]
    if rows:
        yield from ("| parameter | in | type | |", "|---|---|---|---|", *rows, "")
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        needed = "" if operation["requestBody"]["required"] else ", which may be left out"
        yield from (f"Body: {_type(body)}{needed}.", "")
    yield from (f"- {status}: {_answer(answer)}" for status, answer in operation["responses"].items() if status < "400")
    yield from (f"- a [Problem](#problem): {', '.join(status for status, _ in _problems(operation))}", "")


def _answer(answer: dict[str, Any]) -> str:
    shapes = [f"{_type(given['schema'])} as `{media}`" for media, given in answer.get("content", {}).items()]
    return " ".join([answer["description"].rstrip(".") + ("." if not shapes else ":"), ", or ".join(shapes)]).strip()


def _shape(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "")
    if "description" in schema:
        yield from (schema["description"], "")
    if "properties" not in schema:
        yield from (f"{_type(schema)}.", "")
        return
    required = schema.get("required", [])
    yield from ("| field | type | |", "|---|---|---|")
    for field, inner in schema["properties"].items():
        yield f"| `{field}` | {_type(inner)} | {'' if field in required else 'may be left out'} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words. A shape is a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"`{name}`" if name.endswith(_EVENT_SCHEMAS) else f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("format") == "date-time":
        return "time"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "properties" in schema:
        return "object with " + ", ".join(f"`{name}` ({_type(inner)})" for name, inner in schema["properties"].items())
    if "additionalProperties" in schema:
        return f"object of {_type(schema['additionalProperties'])}"
    bounds = [f" {word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return " or ".join(types) + "".join(bounds)


if __name__ == "__main__":
    (FOLDER / "states.md").write_text(states_markdown(), "utf-8")
    (FOLDER / "api.md").write_text(api_markdown(), "utf-8")

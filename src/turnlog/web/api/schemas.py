"""JSON schemas of all that the API takes and gives, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_type_hints

import msgspec

from turnlog import errors
from turnlog.events.body import Body
from turnlog.events.kinds import KINDS, PAYLOAD_KINDS, ThreadLate
from turnlog.journal import shapes
from turnlog.web.api import bodies as api_bodies

Schema = dict[str, Any]

PROBLEM: Final = "Problem"
EVENTS_PAGE: Final = "EventsPage"

_PREFIX: Final = "#/components/schemas/"
_TYPES: Final = {str: "string", int: "integer", NoneType: "null"}
_HIDDEN: Final = frozenset({"detail"})
_VALUES: Final = frozenset({"default", "enum", "required", "const"})
"""Parts of a schema that are values themselves."""

_OTHERS: Final[dict[str, Schema]] = {
    "Json": {
        "description": "Any JSON value, passed on as it is.",
        "type": ["object", "array", "string", "number", "boolean", "null"],
    },
    "RawItem": {
        "description": "A raw model item as it was accepted: one JSON object of whatever fields its format has. What "
        "cannot be read any more stands as text.",
        "type": ["object", "string"],
        "additionalProperties": {"$ref": f"{_PREFIX}Json"},
    },
    "Text": {"description": "Text in UTF-8.", "type": "string"},
}


def ref(name: str) -> Schema:
    """A reference to the schema of that name."""
    return {"$ref": _PREFIX + name}


def schemas() -> dict[str, Schema]:
    """Every schema by name."""
    known: dict[str, Schema] = {**_OTHERS, PROBLEM: _problem()}
    structs = [*_structs(shapes, shapes.Shape), *_structs(api_bodies, api_bodies.Given)]
    known |= _generated(structs) | _events() | _frames()
    return dict(sorted(known.items()))


def _structs(module: Any, base: type) -> Iterator[type]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, base) and value is not base:
            yield value


def _generated(structs: list[type]) -> dict[str, Schema]:
    _, components = msgspec.json.schema_components(structs, ref_template=_PREFIX + "{name}")
    return {name: _told(_typed(schema)) for name, schema in components.items()}


def _told(schema: Schema) -> Schema:
    """A description's lines as a paragraph: a docstring is broken for those who read the source."""
    if "description" in schema:
        schema = {**schema, "description": re.sub(r"(?<!\n)\n(?!\n)", " ", schema["description"])}
    return {name: value for name, value in schema.items() if name != "title"}


def _typed(schema: Any) -> Any:
    """The same with names for what is of any shape: nothing is left without a type."""
    if isinstance(schema, list):
        return [_typed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if not set(schema) - {"default", "description"}:
        return {**schema, **ref("Json")}
    if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
        return {**schema, "items": ref("Json")}
    if schema.get("type") == "object" and "properties" not in schema and "additionalProperties" not in schema:
        return {**schema, "additionalProperties": ref("Json")}
    return {name: _typed_part(name, value) for name, value in schema.items()}


def _typed_part(name: str, value: Any) -> Any:
    if name == "properties":
        return {field: _typed(schema) for field, schema in value.items()}
    return value if name in _VALUES else _typed(value)


# --- events ----------------------------------------------------------------------------------------------------


def _events() -> dict[str, Schema]:
    """An event is of one of the known kinds, or cannot be read by this version."""
    named: dict[str, Schema] = {}
    bodies = _generated([*KINDS.values()])
    own = {body.__name__: f"{body.__name__}Body" for body in KINDS.values()}
    for name, schema in bodies.items():
        named[own.get(name, name)] = schema
    for kind, body in KINDS.items():
        name = own[body.__name__]
        if kind in PAYLOAD_KINDS:
            named[name] = _with_payload(named[name], body)
        named[f"{body.__name__}Event"] = _event({"const": kind}, name)
    named["UnreadableBody"] = {
        "description": "A record that is damaged, or of a kind or version not known here: `data` is its text.",
        "type": "object",
        "properties": {"data": {"type": "string"}},
        "required": ["data"],
    }
    named["UnreadableEvent"] = _event({"type": "string"}, "UnreadableBody")
    kinds = [*(f"{body.__name__}Event" for body in KINDS.values()), "UnreadableEvent"]
    named["LogEvent"] = {"description": "One record of a thread.", "anyOf": [ref(name) for name in kinds]}
    named[EVENTS_PAGE] = _object(
        "Events of a thread in order. `next` is the `after` of the page behind this one, null at the head; `at` is the "
        "cursor behind the last event, from which the thread can be followed.",
        events={"type": "array", "items": ref("LogEvent")},
        next={"type": ["string", "null"]},
        at={"type": "string"},
    )
    return named


def _with_payload(schema: Schema, body: type[Body]) -> Schema:
    """A body with its payload as documents have it: a raw item as `raw`, or `data` if damaged; a late event whole."""
    properties = {name: value for name, value in schema["properties"].items() if name != "raw"}
    required = list(schema.get("required", []))
    if body is ThreadLate:
        return {**schema, "properties": {**properties, "event": ref("LogEvent")}, "required": [*required, "event"]}
    properties |= {"raw": ref("RawItem"), "data": {"type": "string", "description": "A raw item that is damaged."}}
    return {**schema, "properties": properties, "required": required}


def _event(kind: Schema, body: str) -> Schema:
    return _object(
        "",
        seq={"type": "integer"},
        turn={"type": ["string", "null"]},
        kind=kind,
        at={"type": "string", "format": "date-time"},
        body=ref(body),
    )


# --- frames ----------------------------------------------------------------------------------------------------


def _object(about: str, **properties: Schema) -> Schema:
    told = {"description": about} if about else {}
    return {**told, "type": "object", "properties": properties, "required": list(properties)}


_TEXT: Final[Schema] = {"type": "string"}
_RESET: Final = _object("", reason=_TEXT, head={"type": ["string", "null"]})
_BYE: Final = _object("", reason=_TEXT)
_CHANGE: Final = _object("", threads={"type": "array", "items": ref("ThreadRow")})


def _frames() -> dict[str, Schema]:
    """What streams carry: each frame has the lines `event:`, where it is a position `id:`, and `data:` with JSON."""
    event = _frame("event", ref("LogEvent"), "One event of the log; `id` is the cursor behind it.")
    event["properties"]["id"] = {"type": "string"}
    event["required"].append("id")
    return {
        "EventFrame": event,
        "DraftFrame": _frame("draft", ref("DraftChunk")),
        "ResetFrame": _frame("reset", _RESET, "Something was missed: read the documents again, and go on from `head`."),
        "ByeFrame": _frame("bye", _BYE, "The stream ends; connect again."),
        "ChangeFrame": _frame("change", _CHANGE, "Rows of threads that have changed."),
        "EventFrames": _stream("EventFrame", "DraftFrame", "ResetFrame", "ByeFrame"),
        "ChangeFrames": _stream("ResetFrame", "ChangeFrame", "ByeFrame"),
    }


def _frame(event: str, data: Schema, about: str = "") -> Schema:
    return _object(about, event={"const": event}, data=data)


def _stream(*frames: str) -> Schema:
    return {
        "description": "Server-sent events. Each is written as the lines `event:`, `id:` where it has one, and `data:` "
        "with JSON; lines that begin with `:` keep the connection open.",
        "type": "array",
        "items": {"anyOf": [ref(name) for name in frames]},
    }


# --- problems --------------------------------------------------------------------------------------------------


def _problem() -> Schema:
    """A problem document: four fields that are always there, and the facts of whatever error it is."""
    facts: dict[str, set[str]] = {}
    for error in _errors():
        hints = get_type_hints(error)
        for fact in fields(error):
            if fact.name not in _HIDDEN:
                facts.setdefault(fact.name, set()).update(_types(hints[fact.name]) - {"null"})
    schema = _object(
        "What was refused or went wrong (RFC 9457). `type` names the error; its facts are there where it has them.",
        type={"type": "string"},
        title={"type": "string"},
        status={"type": "integer"},
        detail={"type": "string"},
    )
    for name, types in sorted(facts.items()):
        schema["properties"][name] = {"type": min(types) if len(types) == 1 else sorted(types)}
    return schema


def _errors() -> Iterator[type[errors.TurnlogError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.TurnlogError):
            yield value


def _types(hint: Any) -> set[str]:
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return {_TYPES[part] for part in parts}

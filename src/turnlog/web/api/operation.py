"""What an operation of the API is: its method and path, what it takes, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Method: TypeAlias = Literal["GET", "POST", "PATCH"]
JSON: Final = "application/json"
SSE: Final = "text/event-stream"

PATH_WORDS: Final[Mapping[str, str]] = {
    "thread": "The thread's id. One that is not `[A-Za-z0-9_-][A-Za-z0-9._-]*`, or equals `latest`, is written `~` and "
    "the base64url of its UTF-8 without padding.",
    "turn": "The turn's id, written as a thread's is.",
    "seq": "The seq of an event of the thread.",
    "approval": "The approval's id, written as a thread's is.",
}
"""What stands in the paths."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query, or a header. `type` is what its text must be."""

    name: str
    about: str
    type: Any = str
    required: bool = False
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True)
class Answer:
    """What comes with a status."""

    about: str
    shapes: Mapping[str, Any]
    """Media type -> struct, or the name of a schema."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path. `problems` are the statuses of the problem documents it may answer with, beside those
    that any may. A `public` one needs no token."""

    id: str
    method: Method
    path: str
    summary: str
    about: str = ""
    query: tuple[Parameter, ...] = ()
    body: type | None = None
    body_required: bool = True
    answers: Mapping[int, Answer]
    problems: tuple[int, ...] = ()
    public: bool = False
    tag: str = "threads"
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        known = frozenset(parameter.name for parameter in self.query if parameter.place == "query")
        object.__setattr__(self, "names", known)


def as_json(about: str, shape: Any) -> Mapping[int, Answer]:
    """The answer of what is read or done: a document of `shape`."""
    return {200: Answer(about, {JSON: shape})}


def as_accepted(about: str, shape: Any) -> Mapping[int, Answer]:
    """The answer of what is durable and goes on."""
    return {202: Answer(about, {JSON: shape})}

"""What Codex asks a person: its requests as steps that wait, and decisions as its answers. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnlog.agents.codex.jsonrpc import Asked
from turnlog.agents.codex.steps import bounded, json_words, text_of
from turnlog.agents.protocol import StepSignal
from turnlog.events.kinds import Failure

_COMMAND: Final = "item/commandExecution/requestApproval"
_FILES: Final = "item/fileChange/requestApproval"
_PERMISSIONS: Final = "item/permissions/requestApproval"
_QUESTIONS: Final = "item/tool/requestUserInput"
_ELICITATION: Final = "mcpServer/elicitation/request"

_TITLES: Final = {
    _COMMAND: "May this command run?",
    _FILES: "May these files be changed?",
    _PERMISSIONS: "May it have these permissions?",
    _QUESTIONS: "A question",
    _ELICITATION: "A tool asks",
}
_TITLE_CHARS: Final = 200
_WORDS: Final = {True: "accept", False: "decline", "approve": "accept", "deny": "decline", "reject": "decline"}
"""Other words for the two decisions that everything takes."""

_PLAIN: Final = ("accept", "decline")
_DECISIONS: Final = ("accept", "acceptForSession", "decline", "cancel")
_SHOWN: Final = ("command", "cwd", "reason", "permissions", "grantRoot", "questions", "message", "serverName", "url")


class Approval(msgspec.Struct, frozen=True):
    """One request of Codex that a person decides. `id` is what a decision names."""

    id: str
    asked: Asked
    params: dict[str, Any]

    def waiting(self) -> StepSignal:
        """The step that asks, below what it is about."""
        shown = {name: self.params[name] for name in _SHOWN if self.params.get(name) is not None}
        what = next((text for name in ("command", "reason", "message") if (text := text_of(shown.get(name)))), "")
        title = f"{_TITLES[self.asked.method]} {what}".strip()
        return StepSignal(
            id=self.id,
            parent=text_of(self.params.get("itemId")) or None,
            step="approval",
            name=self.asked.method,
            title=title[:_TITLE_CHARS],
            status="waiting",
            args=bounded({**shown, "decisions": self._choices()}),
        )

    def decided(self, value: Any) -> tuple[Any, StepSignal]:
        """What Codex is answered to a decision, and the step that tells it.

        What cannot be understood counts as a refusal: the first decision stands, so there is no second one.
        """
        choice, more = _understood(value)
        known = choice in self._names() or (self.asked.method == _QUESTIONS and isinstance(value, dict))
        detail = None if known else "the decision was not understood, so it counts as a refusal"
        if not known:
            choice, more = "decline", {}
        step = StepSignal(id=self.id, status="succeeded", output=json_words(value), detail=detail)
        return self._answer(choice, more, value), step

    def died(self, why: str) -> StepSignal:
        """The step of a request that nobody decided while it could be."""
        return StepSignal(id=self.id, status="interrupted", failure=Failure(reason=why))

    def _choices(self) -> list[Any]:
        """What may be decided: what Codex offers, and the two decisions that every request takes."""
        offered = self.params.get("availableDecisions")
        if self.asked.method not in (_COMMAND, _FILES):
            return list(_PLAIN)
        if self.asked.method == _FILES or not isinstance(offered, list):
            return list(_DECISIONS)
        return offered + [plain for plain in _PLAIN if plain not in offered]

    def _names(self) -> set[str]:
        choices = self._choices()
        words = {choice for choice in choices if isinstance(choice, str)}
        return words.union(*(choice for choice in choices if isinstance(choice, dict)))

    def _answer(self, choice: str, more: dict[str, Any], value: Any) -> Any:
        granted = choice not in ("decline", "cancel")
        match self.asked.method:
            case method if method == _PERMISSIONS:
                wanted = self.params.get("permissions")
                asked = wanted.items() if granted and isinstance(wanted, dict) else ()
                return {"permissions": {name: what for name, what in asked if what is not None}, "scope": "turn"}
            case method if method == _QUESTIONS:
                given = value.items() if isinstance(value, dict) else ()
                return {"answers": {name: {"answers": _texts(said)} for name, said in given}}
            case method if method == _ELICITATION:
                return {"action": choice, "content": more.get("content") if granted else None, "_meta": None}
            case _:
                return {"decision": {choice: more} if more else choice}


def approval_of(asked: Asked, number: int) -> Approval | None:
    """The approval that a request of Codex is, the so-manieth of its turn; None when it asks no person.

    A question for a secret is none: the answer would stay in the log.
    """
    if asked.method not in _TITLES:
        return None
    try:
        params = msgspec.json.decode(asked.params)
    except msgspec.DecodeError:
        return None
    if not isinstance(params, dict) or _asks_a_secret(params):
        return None
    return Approval(f"approval-{number}", asked, params)


def _asks_a_secret(params: dict[str, Any]) -> bool:
    questions = params.get("questions")
    return isinstance(questions, list) and any(isinstance(one, dict) and one.get("isSecret") for one in questions)


def _understood(value: Any) -> tuple[str, dict[str, Any]]:
    """The name of a decision, and what goes with it: `"accept"`, `true`, or `{"name": {...}}`."""
    if isinstance(value, bool | str):
        return _WORDS.get(value, str(value)), {}
    if isinstance(value, dict) and len(value) == 1:
        ((name, more),) = value.items()
        return name, more if isinstance(more, dict) else {}
    return "", {}


def _texts(said: Any) -> list[str]:
    return [json_words(one) for one in said] if isinstance(said, list) else [json_words(said)]

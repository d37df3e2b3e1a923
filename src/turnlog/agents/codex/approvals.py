"""What Codex asks a person: its requests as steps that wait, and decisions as its answers. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnlog.agents.codex.content import mended
from turnlog.agents.codex.jsonrpc import Asked
from turnlog.agents.codex.steps import bounded, id_of, json_words, shortened, text_of
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
            parent=id_of(self.params.get("itemId")) or None,
            step="approval",
            name=self.asked.method,
            title=title[:_TITLE_CHARS],
            status="waiting",
            args=bounded({**shown, "decisions": self._choices()}),
        )

    def decided(self, value: Any) -> tuple[Any, StepSignal]:
        """What Codex is answered to a decision, and the step that tells it.

        What cannot be understood, or was not offered, counts as a refusal: the first decision stands, so there is no
        second one.
        """
        value = mended(value)
        said = shortened(json_words(value))
        answer = self._answer(value)
        if answer is None:
            return self.refused("the decision was not understood, so it counts as a refusal", said)
        return answer, StepSignal(id=self.id, status="succeeded", output=said)

    def refused(self, why: str, said: str | None = None) -> tuple[Any, StepSignal]:
        """The answer "no", and the step that tells why it is the answer to what was `said`."""
        return self._answer("decline"), StepSignal(id=self.id, status="succeeded", output=said, detail=why)

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

    def _answer(self, value: Any) -> Any:
        """What Codex is answered, in the shape of its request; None when this is no decision on it."""
        choice = self._choice(value)
        match self.asked.method:
            case method if method == _QUESTIONS and (isinstance(value, dict) or choice == "decline"):
                given = value.items() if isinstance(value, dict) else ()
                return {"answers": {name: {"answers": _texts(said)} for name, said in given}}
            case method if method == _ELICITATION and isinstance(value, dict):
                return _filled_in(value)
            case _ if choice is None:
                return None
            case method if method == _PERMISSIONS:
                wanted = self.params.get("permissions")
                asked = wanted.items() if choice == "accept" and isinstance(wanted, dict) else ()
                return {"permissions": {name: what for name, what in asked if what is not None}, "scope": "turn"}
            case method if method == _ELICITATION:
                return {"action": choice, "content": None, "_meta": None}
            case _:
                return {"decision": choice}

    def _choice(self, value: Any) -> Any:
        """The choice that a decision names, as Codex offered it; None when it offered no such.

        A choice may be an object that makes a lasting rule: another one than was shown to the person is none of theirs.
        """
        wanted = _WORDS.get(value, value) if isinstance(value, bool | str) else value
        same = (choice for choice in self._choices() if isinstance(choice, str | dict) and choice == wanted)
        return next(same, None)


def approval_of(asked: Asked, number: int) -> Approval | None:
    """The approval that a request of Codex is, the so-manieth of its turn; None when it asks no person.

    A question for a secret is none: the answer would stay in the log.
    """
    if asked.method not in _TITLES:
        return None
    try:
        params = msgspec.json.decode(asked.params)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(params, dict) or _asks_a_secret(params):
        return None
    return Approval(f"approval-{number}", asked, params)


def _asks_a_secret(params: dict[str, Any]) -> bool:
    questions = params.get("questions")
    return isinstance(questions, list) and any(isinstance(one, dict) and one.get("isSecret") for one in questions)


def _filled_in(value: dict[str, Any]) -> Any:
    """The answer to a tool's form: `{"accept": {"content": {...}}}`."""
    accepted = value.get("accept")
    if len(value) != 1 or not isinstance(accepted, dict):
        return None
    return {"action": "accept", "content": accepted.get("content"), "_meta": None}


def _texts(said: Any) -> list[str]:
    return [json_words(one) for one in said] if isinstance(said, list) else [json_words(said)]

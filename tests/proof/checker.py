"""The checker: what a store's file holds, against what the outside knows and what the scripts say.

It shares no code with turnlog: it has its own table of states, its own reading of the file and its own idea of what a
draft may become. It returns sentences, none when all is well.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .facts import (
    Accepted,
    Began,
    Decided,
    Ended,
    Fact,
    Happened,
    ShownDraft,
    ShownEvent,
    ShownJson,
    ShownMessage,
    ShownWords,
    Stepped,
    Wrote,
)
from .scripts import Script
from .stored import Stored, StoredEvent, StoredThread, StoredTurn, read_store
from .words import Words, field_of, says, takes, text_of

# State -> event kind -> state after it. What is not here must not be.
AFTER: dict[str, dict[str, str]] = {
    "": {"submitted": "submitted"},
    "submitted": {"requested": "submitted", "worker_started": "worker_started", "interrupted": "interrupted"},
    "worker_started": {
        **dict.fromkeys(("item", "step", "attempt_dropped", "requested"), "worker_started"),
        **{kind: kind for kind in ("assistant_started", "completed", "interrupted")},
    },
    "assistant_started": {
        **dict.fromkeys(("item", "step", "attempt_dropped", "requested"), "assistant_started"),
        **{kind: kind for kind in ("completed", "interrupted")},
    },
    "completed": {},
    "interrupted": {},
}
PHASE = {"submitted": 0, "worker_started": 1, "assistant_started": 1, "completed": 2, "interrupted": 2}
OF_THREADS = ("created", "item", "late", "renamed", "settings", "truncated", "forked", "compacted")
REPAIRS = ("repaired", "repair_undone")
KINDS = {kind for kinds in AFTER.values() for kind in kinds} | {f"thread_{name}" for name in OF_THREADS + REPAIRS}


def check_file(path: Path, facts: Sequence[Fact], scripts: Sequence[Script], *, settled: bool = True) -> list[str]:
    """What is wrong with the file at `path`; see `check`."""
    return check(read_store(path), facts, scripts, settled=settled)


def check(stored: Stored, facts: Sequence[Fact], scripts: Sequence[Script], *, settled: bool = True) -> list[str]:
    """What is wrong with a store. `settled`: nobody owns it any more, so no turn may be open."""
    found = [] if stored.integrity == "ok" else [f"the database is damaged: {stored.integrity}"]
    by_turn = {(script.thread, script.turn): script for script in scripts}
    for thread in stored.threads.values():
        found += _wrong_thread(thread)
        found += _wrong_late(thread, by_turn)
        for row in thread.turns.values():
            place = f"{thread.name}/{row.turn}"
            found += [f"{place}: {problem}" for problem in _wrong_turn(thread, row, settled=settled)]
            script = by_turn.get((thread.name, row.turn))
            if script is None:
                found.append(f"{place}: nobody submitted it")
            else:
                found += [f"{place}: {problem}" for problem in Words(thread, row.turn, script).wrong()]
    return found + [f"{problem}: {fact}" for fact, problem in _missing(stored, facts, by_turn)]


# --- what holds for any store ------------------------------------------------------------------------------------


def _wrong_thread(thread: StoredThread) -> Iterator[str]:
    seqs = [event.seq for event in thread.events]
    if seqs != list(range(1, thread.head + 1)):
        yield f"{thread.name}: the seqs are {seqs}, the head is {thread.head}"
    if [event.seq for event in thread.events if event.kind == "thread_created"] != [1]:
        yield f"{thread.name}: does not begin with its creation"
    for event in thread.events:
        if event.version != 1 or event.kind not in KINDS:
            yield f"{thread.name}: unknown kind {event.kind} {event.version}"
        if (event.turn is None) != event.kind.startswith("thread_"):
            yield f"{thread.name}: {event.kind} belongs to {event.turn}"
    keys = Counter(row.key for row in thread.turns.values() if row.key is not None)
    if twice := [key for key, count in keys.items() if count > 1]:
        yield f"{thread.name}: keys of two turns: {twice}"
    places = Counter(chunks[0].rev for chunks in thread.chunks.values())
    if any(count > 1 for count in places.values()):
        yield f"{thread.name}: two drafts have one place"
    for (turn, draft), chunks in thread.chunks.items():
        length = 0
        for chunk in chunks:
            if chunk.offset != length or chunk[:2] != chunks[0][:2] or not chunk.rev <= chunk.chunk_rev <= thread.rev:
                yield f"{thread.name}/{turn}: draft {draft} has a wrong chunk {chunk} after {length} characters"
            length = chunk.offset + len(chunk.text)


def _wrong_late(thread: StoredThread, scripts: Mapping[tuple[str, str], Script]) -> Iterator[str]:
    late = [event for event in thread.events if event.kind == "thread_late"]
    for event in late:
        turn = event.fields["of"]
        script = scripts.get((thread.name, turn))
        if script is None or not is_late(event, script):
            yield f"{thread.name}: nobody sent what came late at seq {event.seq}"
        if event.seq not in thread.turns[turn].fold.get("late", ()):
            yield f"{thread.name}/{turn}: the row does not name what came late at seq {event.seq}"


def _wrong_turn(thread: StoredThread, row: StoredTurn, *, settled: bool) -> Iterator[str]:
    state, events = "", thread.of(row.turn)
    for event in events:
        after = AFTER[state].get(event.kind)
        if after is None:
            yield f"{event.kind} at seq {event.seq} while {state}"
            return
        if event.kind == "item" and state == "worker_started" and json.loads(event.raw).get("role") == "assistant":
            yield f"an answer at seq {event.seq} before assistant_started"
        state = after
    if not events:
        yield "has no events"
        return
    begun = any(event.kind == "worker_started" for event in events)
    if state == "interrupted" and events[-1].fields["reason"] == ("not_started" if begun else "process_died"):
        yield f"ended by {events[-1].fields['reason']}, and had {'' if begun else 'not '}begun"
    told = (row.phase, row.seq_first, row.seq_last, row.fold["state"], row.fold.get("key"))
    if told != (PHASE[state], events[0].seq, events[-1].seq, state, events[0].fields.get("key")):
        yield f"the row tells {told} of a turn that is {state}"
    if row.key != events[0].fields.get("key"):
        yield f"the key of the row is {row.key}"
    if settled and PHASE[state] < 2:
        yield f"is still {state}"
    if PHASE[state] == 2 and any(turn == row.turn for turn, _ in thread.chunks):
        yield "has ended and has drafts"
    closed = Counter(closes["draft"] for event in events for closes in event.fields.get("closes", ()))
    if twice := [draft for draft, count in closed.items() if count > 1]:
        yield f"drafts closed twice: {twice}"
    if both := [draft for turn, draft in thread.chunks if turn == row.turn and draft in closed]:
        yield f"closed drafts are still there: {both}"


# --- what the outside knows --------------------------------------------------------------------------------------


def _missing(
    stored: Stored, facts: Sequence[Fact], scripts: Mapping[tuple[str, str], Script]
) -> Iterator[tuple[Fact, str]]:
    """Each fact that the store does not bear out."""
    shown: dict[tuple[str, str, str, str], tuple[ShownDraft, str]] = {}
    for fact in facts:
        thread = stored.threads.get(fact.thread)
        if thread is None:
            yield fact, "the thread is gone"
        elif fact.turn and fact.turn not in thread.turns:
            yield fact, "the turn is gone"
        elif isinstance(fact, ShownDraft):
            name = (fact.to, fact.thread, fact.turn, fact.draft)
            before = shown.get(name, (fact, ""))[1]
            if fact.offset > len(before):
                yield fact, f"shown after {len(before)} characters"
            shown[name] = (fact, before[: fact.offset] + fact.text)
        elif isinstance(fact, ShownWords):
            if not _has_words(thread, fact, scripts[fact.thread, fact.turn]):
                yield fact, "the words are gone"
        elif (problem := _missing_fact(thread, fact)) is not None:
            yield fact, problem
    for fact, text in shown.values():
        script = scripts[fact.thread, fact.turn]
        if (problem := _missing_text(stored.threads[fact.thread], fact, text, script)) is not None:
            yield fact, f"{problem} of {text!r}"


def _missing_fact(thread: StoredThread, fact: Fact) -> str | None:
    events = thread.of(fact.turn)
    match fact:
        case Accepted():
            first = events[0].fields if events else {}
            kept = first.get("content") == fact.content and first.get("key") == fact.key
            return None if kept else "the submission is not what was accepted"
        case Began():
            return None if any(event.kind == "worker_started" for event in events) else "an agent began before its turn"
        case Wrote(late=True):
            kept = any(_is_late(event, fact.turn, fact.raw) for event in thread.events)
            return None if kept else "the late item is gone"
        case Wrote():
            count = sum(event.kind == "item" and event.raw == fact.raw for event in events)
            return None if count == 1 else f"the item is there {count} times"
        case Stepped():
            steps = [event.fields for event in events if event.kind == "step"]
            told = any((step["id"], step.get("status")) == (fact.step, fact.status) for step in steps)
            return None if told else "the step is gone"
        case Decided():
            made = [event.fields.get("value") for event in events if _decides(event, fact.approval)]
            return None if made == [fact.value] else f"what was decided is {made}"
        case Happened():
            return _missing_happening(thread, fact)
        case Ended():
            return None if events and events[-1].kind == fact.state else "it ended otherwise"
        case ShownEvent() | ShownJson():
            return _missing_event(thread, fact)
        case ShownMessage():
            return _missing_message(thread, fact)
    raise AssertionError(f"nothing is known of {fact}")


def is_late(event: StoredEvent, script: Script) -> bool:
    """Whether a script says what came late: its late item, or what it was saying when its turn ended."""
    match event.fields.get("late"):
        case "item":
            raws = [*script.raws(), *([] if script.late is None else [script.late])]
            return any(_is_late(event, script.turn, raw) for raw in raws)
        case "step":
            return takes(script, json.loads(event.raw))
    return event.fields.get("late") == "attempt_dropped"


def _decides(event: StoredEvent, approval: str) -> bool:
    fields = event.fields
    return event.kind == "requested" and (fields["what"], fields.get("approval")) == ("decide", approval)


def _missing_happening(thread: StoredThread, fact: Happened) -> str | None:
    event = next((event for event in thread.events if event.seq == fact.seq), None)
    same = event is not None and (event.turn or "", event.kind) == (fact.turn, fact.kind)
    kept = event is not None and same and event.fields | fact.fields == event.fields
    return None if kept else f"what was acknowledged is {event}"


def _is_late(event: StoredEvent, turn: str, raw: bytes) -> bool:
    return event.kind == "thread_late" and event.fields["of"] == turn and event.raw.endswith(b"\n" + raw)


def _missing_event(thread: StoredThread, fact: ShownEvent | ShownJson) -> str | None:
    event = next((event for event in thread.events if event.seq == fact.seq), None)
    if event is None:
        return "a shown event is gone"
    if isinstance(fact, ShownEvent):
        same = event.body == fact.data
    else:
        same = _without_late(fact.body) == (event.fields | _payload(event))
    told = (event.turn or "", event.kind)
    return None if same and told == (fact.turn, fact.kind) else f"a shown event is now {event}"


def _payload(event: StoredEvent) -> dict[str, Any]:
    return {"raw": json.loads(event.raw)} if event.kind in ("item", "thread_item") else {}


def _without_late(body: Any) -> Any:
    """What came late is shown as the event that it would have been, and is looked for where it is kept."""
    return {name: value for name, value in body.items() if name != "event"}


def _missing_message(thread: StoredThread, fact: ShownMessage) -> str | None:
    event = next((event for event in thread.of(fact.turn) if event.seq == fact.seq), None)
    if event is None:
        return "the event of a shown message is gone"
    if event.kind == "submitted":
        told = event.fields["content"]
    else:
        told = "".join(part["text"] for part in json.loads(event.raw)["content"])
    return None if told == fact.text else f"the message is now {told!r}"


def _has_words(thread: StoredThread, fact: ShownWords, script: Script) -> bool:
    """Whether a turn has the words somewhere, or what the agent itself put in the place of the draft that they were."""
    drafts = [thread.draft(turn, draft) for turn, draft in thread.chunks if turn == fact.turn]
    if any(fact.text in (text or "") for text in drafts):
        return True
    for event in thread.of(fact.turn):
        closes = any(closed["draft"] == fact.draft for closed in event.fields.get("closes", ()))
        values = (event.fields, json.loads(event.raw) if event.kind == "item" else None)
        if any(fact.text in text for value in values for text in _texts(value)):
            return True
        if closes and _carries(event, fact.draft, fact.text, script):
            return True
    return False


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _missing_text(thread: StoredThread, fact: ShownDraft, text: str, script: Script) -> str | None:
    """P2: text that was shown is still a draft, or an event carries it, or the agent's own final item replaces it."""
    if (kept := thread.draft(fact.turn, fact.draft)) is not None:
        place = thread.chunks[fact.turn, fact.draft][0][:2]
        if not _is_place(fact, *place):
            return f"the draft has moved to {place}"
        return None if kept.startswith(text) else "the draft lacks some"
    for event in thread.of(fact.turn):
        for closed in event.fields.get("closes", ()):
            if closed["draft"] == fact.draft:
                if not _is_place(fact, closed["after"], closed["rev"]):
                    return f"seq {event.seq} closes the draft at another place"
                carried = _carries(event, fact.draft, text, script)
                return None if carried else f"seq {event.seq} closes the draft and drops some"
    return "nothing is left"


def _is_place(fact: ShownDraft, after: int, rev: int) -> bool:
    return fact.after == after and fact.rev in (None, rev)


def _carries(event: StoredEvent, draft: str, text: str, script: Script) -> bool:
    fields = event.fields
    if event.kind == "item":
        return "synthesized" not in fields or text_of(event).startswith(text)
    if event.kind == "attempt_dropped":
        return any(one["draft"] == draft and one["text"].startswith(text) for one in fields.get("dropped", ()))
    # A step that says the same itself replaces what was shown of it, as a final item does.
    field = field_of(draft)
    return event.kind == "step" and (str(fields.get(field)).startswith(text) or says(script, fields, field))

"""A thread and a turn for people to read, after the fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnlog.cli.output import Output
from turnlog.cli.store import Store
from turnlog.cli.trace import (
    block,
    counts,
    in_order,
    indent,
    is_text,
    label,
    local_time,
    retry_command,
    says_the_end,
    step_line,
    tell_end,
    tell_unknown,
)
from turnlog.cli.words import cut_to, duration, one_line, shell_word, size
from turnlog.events.kinds import Submitted
from turnlog.folds.entries import Entry
from turnlog.folds.notices import Notice
from turnlog.folds.transcript import Message
from turnlog.folds.turn import TurnView, content_text
from turnlog.journal.documents import cursor_text
from turnlog.journal.listed import ListedTurn
from turnlog.journal.log import Log
from turnlog.journal.reading import TranscriptPage

_OUTPUT_LINES: Final = 6
_NO_ARGS: Final = frozenset({"", "{}", "[]", "null"})
_ROLES: Final = {"user": "You", "assistant": "Assistant"}


# --- a thread --------------------------------------------------------------------------------------------------


def print_transcript(out: Output, store: Store, log: Log, thread: str, page: TranscriptPage) -> None:
    """The messages of a page, each turn's notices under them. A retried attempt is one line: its message came again."""
    out.line(shell_word(thread), "bold")
    if page.next is not None:
        older = store.command("show", thread, options=(f"--before={cursor_text(page.next)}",))
        out.line(f"Older: {older}", "dim")
    turns = {view.turn: view for view in page.turns}
    notices = list(page.notices)
    last: str | None = None
    for index, message in enumerate(page.messages):
        taken_back = _is_taken_back(message.turn, turns)
        if message.turn != last or message.turn is None or (message.role == "user" and not taken_back):
            out.line()
        if taken_back and message.turn is not None and message.turn != last:
            out.line(f"A message was taken back. See it: {store.command('show', thread, message.turn)}", "dim")
        last = message.turn
        if not message.hidden:
            _print_message(out, message, turns)
        following = page.messages[index + 1] if index + 1 < len(page.messages) else None
        if following is None or following.turn != last:
            due = [notice for notice in notices if _is_due(notice, last, following)]
            notices = [notice for notice in notices if notice not in due]
            for notice in due:
                if not _is_taken_back(notice.turn, turns):
                    _print_notice(out, store, log, thread, notice)
    for notice in notices:
        if not notice.hidden or notice.turn is not None:
            _print_notice(out, store, log, thread, notice)
    for view in page.turns:
        if view.damaged:
            out.line(f"The row of turn {shell_word(view.turn)} could not be read; it is made of its events.", "yellow")


def _is_taken_back(turn: str | None, turns: Mapping[str, ListedTurn]) -> bool:
    """Whether a truncation hides the turn."""
    view = None if turn is None else turns.get(turn)
    return view is not None and view.hidden_by is not None


def _is_due(notice: Notice, turn: str | None, following: Message | None) -> bool:
    if notice.turn is not None:
        return notice.turn == turn
    return following is None or notice.seq < following.seq


def _print_message(out: Output, message: Message, turns: Mapping[str, TurnView]) -> None:
    view = None if message.turn is None else turns.get(message.turn)
    out.write(_ROLES.get(message.role, one_line(message.role)), "bold")
    about = f" · {local_time(message.at)}" if message.at is not None else ""
    if message.role == "assistant" and view is not None:
        agent = f" · {one_line(view.agent)}" if view.agent else ""
        took = f" · {duration(view.settled_at - view.submitted_at)}" if view.settled_at is not None else ""
        about = f"{agent}{took}{counts(view)} · turn {shell_word(view.turn)}"
    if message.draft is not None:
        about += " · being written"
    elif message.synthesized is not None:
        about += " · as far as it was written"
    out.line(about, "dim")
    block(out, message.text, "")
    for attachment in message.attachments:
        out.line(f"  attached: {one_line(attachment.name)}", "dim")


def _print_notice(out: Output, store: Store, log: Log, thread: str, notice: Notice) -> None:
    if notice.retried_by is not None and notice.turn is not None:
        told = store.command("show", thread, notice.turn)
        out.line(f"An earlier attempt was interrupted ({notice.reason}) and asked again. See it: {told}", "dim")
        return
    reason = f" ({notice.reason})" if notice.reason else ""
    out.write(f"{notice.kind.capitalize()}{reason}: ", "yellow")
    out.line(notice.text)
    if notice.turn is not None and notice.unknown_calls:
        tell_unknown(out, log.timeline(thread, notice.turn))
    if notice.turn is None:
        return
    if notice.kind == "interrupted":
        out.line(f"  What happened: {store.command('show', thread, notice.turn)}")
    if notice.can_retry:
        out.line(f"  Ask again:     {retry_command(store, thread, notice.turn)}")
    if notice.kind in ("running", "queued"):
        out.line(f"  Watch it: {store.command('tail', thread, options=('--follow',))}")


# --- a turn ----------------------------------------------------------------------------------------------------


def print_turn(out: Output, store: Store, log: Log, thread: str, turn: str) -> None:
    """Everything that happened in a turn, as a tree, with the beginnings of arguments and outputs."""
    view = log.timeline(thread, turn)
    row = view.turn
    submitted = next(log.events(thread, turn=turn)).body
    out.write("You", "bold")
    out.line(f" · {local_time(row.submitted_at)} · turn {shell_word(row.turn)}", "dim")
    if isinstance(submitted, Submitted):
        block(out, content_text(submitted.content), "")
        for name, value in (("in", submitted.workspace), ("model", submitted.model), ("key", submitted.key)):
            if value is not None:
                out.line(f"  {name} {one_line(value)}", "dim")
        if submitted.retry_of is not None:
            out.line(f"  asks again what turn {shell_word(submitted.retry_of)} was to answer", "dim")
    if row.agent is not None:
        out.line()
        out.write("Assistant", "bold")
        out.line(f" · {one_line(row.agent)} {one_line(row.agent_version or '')}".rstrip(), "dim")
    for entry, depth, ends in in_order(view.entries):
        if not ends and not says_the_end(entry):
            _print_entry(out, entry, depth)
    out.line()
    tell_end(out, store, thread, view)


def _print_entry(out: Output, entry: Entry, depth: int) -> None:
    if not is_text(entry):
        step_line(out, entry, depth)
        _print_args(out, entry, depth)
        if entry.output:
            _print_output(out, entry.output, entry.output_bytes, f"{indent(depth)}  │ ")
        if entry.text:
            block(out, entry.text, f"{indent(depth)}  ", "dim")
        return
    answer = entry.kind == "message" and depth == 0
    if answer:
        out.line()
    if entry.mark is not None:
        out.line(f"{indent(depth)}{label(entry)}:", "dim")
    block(out, entry.text or "", "" if answer else indent(depth), "plain" if answer else "dim")
    if entry.draft:
        out.line(f"{indent(depth)}(being written)", "dim")


def _print_args(out: Output, entry: Entry, depth: int) -> None:
    args = one_line(entry.args or "")
    if args not in _NO_ARGS:
        name = one_line(entry.name or "")
        margin = f"{indent(depth)}  "
        out.line(cut_to(f"{margin}{name} {args}", out.columns), "dim")


def _print_output(out: Output, text: str, whole_bytes: int, margin: str) -> None:
    """The first lines of an output, and how much more there is."""
    lines = text.rstrip("\n").split("\n")
    for line in lines[:_OUTPUT_LINES]:
        out.line(
            f"{margin}{cut_to(one_line(line) if not line.startswith(' ') else _kept(line), out.columns - len(margin))}",
            "dim",
        )
    left = len(lines) - _OUTPUT_LINES
    if left > 0:
        out.line(f"{margin}… {left} more lines, {size(whole_bytes)} in all (--json shows them)", "dim")


def _kept(line: str) -> str:
    """A line with its margin, which means something in code."""
    return line[: len(line) - len(line.lstrip(" "))] + one_line(line)

"""A turn on a terminal while it happens: views of its timeline in, lines out, and nothing printed is taken back.

Things are printed in the order of the timeline. What is not over yet is waited for, but does not hold up what comes
after it, with two exceptions: text that is growing is not interrupted, and of several sub-agents at work side by side
the first is shown until it is done, so that the steps of one stay together.
"""

from __future__ import annotations

from turnlog.cli.output import Output, Style
from turnlog.cli.trace import in_order, indent, is_over, is_text, label, says_the_end, step_line
from turnlog.cli.words import cut_to, duration, harmless, plural
from turnlog.events.kinds import StepStatus
from turnlog.folds.entries import Entry, TimelineView
from turnlog.folds.states import TERMINAL


class Live:
    """Prints what each view of one turn adds to the ones before."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._texts: dict[str, str] = {}
        self._printed: dict[str, StepStatus] = {}
        self._begun: set[str] = set()
        self._writing: str | None = None
        self._answered = False

    def draw(self, view: TimelineView, now_us: int) -> None:
        """Print what is new. `now_us` is wall time, for how long things have been running."""
        self._walk(view)
        if view.turn.state in TERMINAL:
            self._end_line()
        elif self._writing is None:
            self._out.status(cut_to(_now(view, now_us), self._out.columns - 1))
        self._out.flush()

    def _walk(self, view: TimelineView) -> None:
        busy_depths: set[int] = set()
        hidden_below: int | None = None
        for entry, depth, ends in in_order(view.entries):
            if hidden_below is not None:
                if depth > hidden_below or (ends and depth == hidden_below):
                    continue
                hidden_below = None
            if is_text(entry):
                if self._text(entry, depth):
                    return
            elif entry.kind == "subagent":
                if not ends and depth in busy_depths:
                    hidden_below = depth
                    continue
                self._agent(entry, depth, ends)
                if ends and not is_over(entry):
                    busy_depths.add(depth)
            elif not ends and not says_the_end(entry):
                self._step(entry, depth)

    def _agent(self, entry: Entry, depth: int, ends: bool) -> None:
        if not ends and entry.id not in self._begun:
            self._begun.add(entry.id)
            self._end_line()
            self._out.line(f"{indent(depth)}▸ {label(entry)}")
        elif ends:
            self._step(entry, depth)

    def _step(self, entry: Entry, depth: int) -> None:
        if not (is_over(entry) or entry.status == "waiting") or self._printed.get(entry.id) == entry.status:
            return
        self._printed[entry.id] = entry.status
        self._end_line()
        step_line(self._out, entry, depth)
        if entry.text and entry.kind != "subagent":
            self._write(harmless(entry.text).rstrip("\n"), f"{indent(depth)}  ", "dim")
            self._out.line()

    def _text(self, entry: Entry, depth: int) -> bool:
        """Print what of a text is new; True while it is growing, so that nothing else comes between."""
        text = _shown_text(entry)
        before = self._texts.get(entry.id, "")
        if text == before:
            if not entry.draft and self._writing == entry.id:
                self._end_line()
            return False
        margin, style = _form(entry, depth)
        if not text.startswith(before):
            self._end_line()
            self._out.line(f"{margin}(what was shown above was replaced by:)", "dim")
            before = ""
        if self._writing != entry.id:
            self._begin_text(entry, margin, style, goes_on=bool(before))
        self._write(text[len(before) :], margin, style)
        self._texts[entry.id] = text
        self._writing = entry.id
        if not entry.draft:
            self._end_line()
        return entry.draft

    def _begin_text(self, entry: Entry, margin: str, style: Style, *, goes_on: bool) -> None:
        self._end_line()
        if entry.kind == "message" and not margin and not self._answered:
            self._answered = True
            self._out.line()
        self._out.write(f"{margin}… " if goes_on else margin, style)

    def _write(self, text: str, margin: str, style: Style) -> None:
        self._out.write(text.replace("\n", f"\n{margin}"), style)

    def _end_line(self) -> None:
        if self._writing is not None:
            self._writing = None
            self._out.line()


def _shown_text(entry: Entry) -> str:
    """The text as it is printed: without the ends of lines at its end, which may be all that comes of a chunk."""
    text = entry.text or ""
    if entry.draft:
        text = text.rstrip("\r")
    return harmless(text).rstrip("\n")


def _form(entry: Entry, depth: int) -> tuple[str, Style]:
    """(margin, style): the answer itself stands at the edge, plain; thoughts and what sub-agents say stand in, dim."""
    if entry.kind == "message" and depth == 0 and entry.mark is None:
        return "", "plain"
    return indent(depth), "dim"


def _now(view: TimelineView, now_us: int) -> str:
    """What happens now and for how long, in one line."""
    running = [entry for entry in view.entries if not is_over(entry) and not is_text(entry)]
    if view.turn.state == "submitted":
        return f"  … waiting ({duration(now_us - view.turn.submitted_at)})"
    if not running:
        return f"  … working ({duration(now_us - view.turn.submitted_at)})"
    last = running[-1]
    agents = sum(entry.kind == "subagent" for entry in running)
    others = f", {plural(agents, 'sub-agent')} at work" if agents > 1 else ""
    since = last.started_at if last.started_at is not None else view.turn.submitted_at
    return f"  … {label(last)} ({duration(now_us - since)}{others})"

"""`turnlog ask`: the command and its arguments; `asking` does it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.agents import AGENTS
from turnlog.cli.options import with_store
from turnlog.cli.store import Store
from turnlog.limits import BODY_BYTES_MAX

if TYPE_CHECKING:  # the journal is loaded when there is something to ask, not to print help
    from turnlog.journal.jobs import WhenBusy

WHEN_BUSY: Final = ("refuse", "queue", "replace")
_NEWEST: Final = ""


@click.command()
@click.argument("thread")
@click.argument("text", required=False)
@click.option("--agent", type=click.Choice(AGENTS), default="demo", show_default=True, help="Who answers.")
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder the agent looks into. Default: this one; for --retry the one of the turn.",
)
@click.option("--key", metavar="K", help="Names this message: asked again with the same key, it is not run twice.")
@click.option(
    "--retry",
    metavar="[TURN]",
    is_flag=False,
    flag_value=_NEWEST,
    help="Ask an interrupted turn again, the newest one if TURN is left out; takes no TEXT. Write it after THREAD.",
)
@click.option(
    "--when-busy",
    type=click.Choice(WHEN_BUSY),
    default="refuse",
    show_default=True,
    help="While a turn of THREAD is being answered: refuse, wait behind it (queue), or end it (replace).",
)
@click.option(
    "--edit", metavar="TURN", help="TEXT takes the place of the message of TURN: that and all after it are taken back."
)
@with_store
def ask(
    store: Store,
    *,
    thread: str,
    text: str | None,
    agent: str,
    workspace: Path | None,
    key: str | None,
    retry: str | None,
    when_busy: WhenBusy,
    edit: str | None,
    as_json: bool,
) -> None:
    """Ask TEXT in THREAD and print the answer and what is done for it, as it becomes durable.

    TEXT - reads standard input. Ctrl-C interrupts: what was shown stays, and the turn can be asked again. The turn goes
    on when whoever reads the output goes away.
    """
    if (text is None) is (retry is None):
        raise click.UsageError("Give either a TEXT or --retry.")
    if retry is not None and key is not None:
        raise click.UsageError("--key names a new message; a turn asked again is known by its first attempt.")
    if retry is not None and edit is not None:
        raise click.UsageError("--edit needs a TEXT; --retry asks the same again.")
    content = None if text is None else _message(text)
    from turnlog.cli.asking import Question, run

    folder = workspace.absolute() if workspace is not None else None if content is None else Path.cwd()
    question = Question(
        thread=thread,
        content=content,
        retry=retry or None,
        agent=agent,
        workspace=folder,
        key=key,
        when_busy=when_busy,
        edit_of=edit,
        as_json=as_json,
    )
    code = run(store, question)
    if code:
        click.get_current_context().exit(code)


def _message(text: str) -> str:
    """What is asked: TEXT itself, or what stands on standard input."""
    content = _standard_input() if text == "-" else text
    if not content.strip():
        raise click.UsageError(f"{'Standard input' if text == '-' else 'TEXT'} holds no message.")
    return content


def _standard_input() -> str:
    """A message from a pipe, without the ends of lines at its end. Reads no more than can be kept."""
    data = sys.stdin.buffer.read(BODY_BYTES_MAX + 1)
    if len(data) > BODY_BYTES_MAX:
        raise click.UsageError(f"Standard input holds more than {BODY_BYTES_MAX} bytes.")
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"Standard input is not UTF-8 at byte {error.start}.") from None

"""The command line: `turnlog [--store URL] COMMAND`. Commands import what they need when they run."""

from __future__ import annotations

import sys
from typing import Any

import click

from turnlog.cli import failing
from turnlog.cli.ask import ask
from turnlog.cli.audit import audit, verify
from turnlog.cli.changing import compact, fork, pin, rename, stop, undo
from turnlog.cli.decide import decide
from turnlog.cli.doctor import doctor, installed_version
from turnlog.cli.options import JSON_WANTED, chosen_store, store_option
from turnlog.cli.output import OutputLost, complain, complain_json, open_streams, silence, written
from turnlog.cli.recover import recover
from turnlog.cli.repair import repair
from turnlog.cli.serve import serve
from turnlog.cli.show import show
from turnlog.cli.tail import tail
from turnlog.cli.threads import threads
from turnlog.errors import TurnlogError

_EPILOG = """\b
Exit codes:
  0  fine
  1  refused, not found, an interrupted turn, findings, or output that is lost
  2  usage: an option, an id or a message that cannot be taken
  3  the store is not there or not usable
  129, 130, 143  stopped by SIGHUP, Ctrl-C or SIGTERM

An id that begins with a dash comes after `--`: turnlog show -- -rf
"""


class Commands(click.Group):
    """The group; it turns errors into a sentence (or, with --json, an object) on stderr and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """See `click.Group`."""
        open_streams()
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            value = super().invoke(ctx)
            with written():
                sys.stdout.flush()
        except OutputLost as error:
            silence()
            if error.unread:
                ctx.exit(failing.FINE)
            _tell(error, ctx)
            ctx.exit(failing.FINDINGS)
        except KeyboardInterrupt:
            ctx.exit(failing.INTERRUPTED)
        except (TurnlogError, OSError) as error:
            _tell(error, ctx)
            ctx.exit(failing.exit_code(error))
        return value


def _tell(error: Exception, context: click.Context) -> None:
    if context.meta.get(JSON_WANTED):
        from turnlog.events.codec import json_line

        complain_json(json_line(failing.error_document(error)))
    else:
        complain(f"turnlog: {failing.sentence(error, chosen_store(context))}")


def _print_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"turnlog {installed_version()}")
        context.exit()


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@store_option
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Say which.")
def main(store: str | None) -> None:
    """A flight recorder for AI agents: what was asked, done and answered, kept through any crash."""


_TURNS = (ask, stop, decide)
_THREADS = (threads, show, tail, rename, pin, undo, fork, compact)
_CARE = (audit, verify, repair, recover, doctor)

for _command in (serve, *_TURNS, *_THREADS, *_CARE):
    main.add_command(_command)

"""What every command takes: the store, and whether a program reads the answer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from turnlog.cli.store import Store, choose_store
from turnlog.limits import PAGE_ROWS, PAGE_ROWS_MAX

JSON_WANTED: Final = "turnlog.json"
"""Key of the context's `meta`: set when errors are to be JSON too."""

Command = Callable[..., None]

_STORE_HELP: Final = "URL of the store. Default: $TURNLOG_STORE, else a file in your data folder (see doctor)."


def _note_json(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    if value:
        context.meta[JSON_WANTED] = True
    return value


store_option = click.option("--store", metavar="URL", help=_STORE_HELP)
_json_option = click.option("--json", "as_json", is_flag=True, callback=_note_json, help="Print JSON for programs.")


def with_store(command: Command) -> Command:
    """Give a command `--store` and `--json`; it is called with the `Store` and `as_json`."""

    @functools.wraps(command)
    def called(*, store: str | None, **arguments: Any) -> None:
        root = click.get_current_context().find_root()
        given = store if store is not None else root.params["store"]
        chosen = choose_store(given)
        root.obj = chosen
        command(chosen, **arguments)

    return store_option(_json_option(called))


def with_page(command: Command) -> Command:
    """Give a command `--limit` and `--before`, which page through a list."""
    before = click.option("--before", metavar="PLACE", help="Go on from the `next` of an earlier list.")
    limit = click.option(
        "--limit", type=click.IntRange(1, PAGE_ROWS_MAX), default=PAGE_ROWS, show_default=True, help="Rows at the most."
    )
    return limit(before(command))


def chosen_store(context: click.Context) -> Store | None:
    """The store of the command that runs, once it is known."""
    found = context.find_root().obj
    return found if isinstance(found, Store) else None

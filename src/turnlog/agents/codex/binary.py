"""Which Codex is run, and whether it can be."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from turnlog.errors import StartFailed

VERSION_MIN: Final = (0, 163, 0)
"""The oldest Codex that the adapter was measured with."""

_PACKAGE: Final = "codex_cli_bin"
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_VERSION_S: Final = 10.0
_OWN: Final = "TURNLOG_"
"""Begins the names of turnlog's own settings: no business of a model's commands."""


def find_binary(environment: Mapping[str, str]) -> Path:
    """The program: named by `CODEX_BIN`, else of the package openai-codex-cli-bin, else `codex` on the path.

    Raises `StartFailed` that says what to do when there is none.
    """
    named = environment.get("CODEX_BIN")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise StartFailed(reason="start_failed", detail=f"CODEX_BIN names no program: {named}")
        return Path(named)
    if importlib.util.find_spec(_PACKAGE) is not None:
        try:
            return Path(importlib.import_module(_PACKAGE).bundled_codex_path())
        except FileNotFoundError as error:
            raise StartFailed(reason="start_failed", detail=str(error)) from error
    found = shutil.which("codex", path=environment.get("PATH"))
    if found is None:
        detail = "Codex is not installed: pip install 'turnlog[codex]', or name its program in CODEX_BIN"
        raise StartFailed(reason="start_failed", detail=detail)
    return Path(found)


def read_version(text: str) -> str:
    """The version named in what Codex says of itself. Raises `StartFailed` when it is too old, or is none."""
    match = _VERSION.search(text)
    if match is None:
        raise StartFailed(reason="start_failed", detail=f'this is no Codex: it calls itself "{text[:200]}"')
    if tuple(map(int, match.groups())) < VERSION_MIN:
        oldest = ".".join(map(str, VERSION_MIN))
        detail = f"Codex {match[0]} is too old: {oldest} or newer is needed (pip install -U 'turnlog[codex]')"
        raise StartFailed(reason="start_failed", detail=detail)
    return match[0]


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """What Codex is given of an environment: all but turnlog's own settings, a token among them."""
    return {name: text for name, text in environment.items() if not name.startswith(_OWN)}


class Installed:
    """The version that the next process would have, as its program says; asked again when its file is another one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._file: tuple[Path, int, int, int] | None = None
        self._version = ""

    def version(self) -> str:
        """The version. Raises `StartFailed` when there is none, or it is too old."""
        binary = find_binary(self._environment)
        file = _file_of(binary)
        if file != self._file:
            self._version = installed_version(binary, self._environment)
            self._file = file
        return self._version

    def learn(self, version: str) -> None:
        """A process of this program has told another version: a script that starts Codex stays the same without it."""
        self._version = version


def _file_of(binary: Path) -> tuple[Path, int, int, int]:
    """What changes when a program is replaced."""
    try:
        status = binary.stat()
    except OSError as error:
        raise StartFailed(reason="start_failed", detail=f"{binary} cannot be looked at: {error}") from error
    return binary, status.st_ino, status.st_size, status.st_mtime_ns


def installed_version(binary: Path, environment: Mapping[str, str]) -> str:
    """Ask the program for its version. Raises `StartFailed` when it does not run, or is too old."""
    given = without_ours(environment)
    try:
        ran = subprocess.run(  # noqa: S603
            [binary, "--version"], capture_output=True, timeout=_VERSION_S, check=True, env=given
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StartFailed(reason="start_failed", detail=f"{binary} does not run: {error}") from error
    return read_version(ran.stdout.decode("utf-8", "replace").strip())

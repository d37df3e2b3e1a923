"""Findings as the tables write them."""

from __future__ import annotations

from collections.abc import Iterable

from tests.audit.rich import INFOS
from turnlog.folds.findings import Finding


def shown(found: Finding) -> str:
    turn = "" if found.turn is None else f"/{found.turn}"
    return f"{found.kind} {found.thread or ''}{turn} {found.place}{' *' if found.repairable else ''}"


def told(findings: Iterable[Finding]) -> list[str]:
    """All but the infos of the undamaged store."""
    return sorted(each for each in map(shown, findings) if each not in INFOS)

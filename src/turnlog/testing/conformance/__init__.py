"""The suite every engine passes: the promises of `turnlog.engines.protocol`, one a test.

class TestMine(EngineConformance):
    def make_harness(self, folder):
        return MyHarness(folder)
"""

from __future__ import annotations

from turnlog.testing.conformance.asked import AskedConformance
from turnlog.testing.conformance.changes import ChangesConformance
from turnlog.testing.conformance.claims import ClaimsConformance
from turnlog.testing.conformance.commits import CommitsConformance
from turnlog.testing.conformance.drafts import DraftsConformance
from turnlog.testing.conformance.exact import ExactConformance
from turnlog.testing.conformance.imports import CheckConformance, ImportsConformance
from turnlog.testing.conformance.lists import ListsConformance
from turnlog.testing.conformance.model import ModelConformance
from turnlog.testing.conformance.owners import OwnersConformance
from turnlog.testing.conformance.reads import ReadsConformance
from turnlog.testing.conformance.snapshots import SnapshotsConformance

__all__ = ["EngineConformance"]


class EngineConformance(
    AskedConformance,
    CheckConformance,
    ChangesConformance,
    ClaimsConformance,
    CommitsConformance,
    DraftsConformance,
    ExactConformance,
    ImportsConformance,
    ListsConformance,
    ModelConformance,
    OwnersConformance,
    ReadsConformance,
    SnapshotsConformance,
):
    """All of it. Subclass it, give it a harness, and let pytest collect it."""

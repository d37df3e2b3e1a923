"""Bounds of looking after a store."""

from __future__ import annotations

from typing import Final

REPAIR_STEPS_MAX: Final = 1_000
"""Steps of one plan of repair, and findings that it leaves: what a person can still look through, and a plan is one
answer in memory. Repaired and audited again, the rest is found."""

REPAIR_SEQS_MAX: Final = 500
"""Events that one event sets aside: with seqs of 19 digits they take 10 KiB of its body."""

AUDIT_PAGE: Final = 200
"""Findings in one answer of the API when the caller names no limit: a store with more has one cause, not many."""

VERIFY_TELLS_EVENTS: Final = 10_000
"""Events read between two tellings of how far a verification is: about a tenth of a second."""

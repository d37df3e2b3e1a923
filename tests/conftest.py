"""What holds for all tests: long ones only when asked for, no skips where everything must be there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings

ELSEWHERE = "only on"
"""A skip whose reason begins so is a matter of the operating system, which no installation can provide."""

COUNTED = ("crash_states", "kills", "kills_in_draft", "server_kills", "server_kills_in_draft", "failed_writes")
"""What tests of crashes count by `record_property`; the sums are told at the end."""

# Two busy cores make any deadline a coin toss; what must be fast is measured by `make bench`.
settings.register_profile("turnlog", deadline=None, print_blob=True)
settings.load_profile("turnlog")


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.markexpr:
        config.option.markexpr = "not long"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure under CI: there, what is not tested is not proved."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ELSEWHERE):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI may not skip: {reason}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    totals = Counter[str]()
    for report in terminalreporter.getreports("passed"):
        totals.update({name: int(str(value)) for name, value in report.user_properties if name in COUNTED})
    if totals:
        terminalreporter.write_line(", ".join(f"{name} {totals[name]}" for name in COUNTED if totals[name]))

"""What holds for all tests: long ones only when asked for, no skips where everything must be there."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

ELSEWHERE = "only on"
"""A skip whose reason begins so is a matter of the operating system, which no installation can provide."""

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

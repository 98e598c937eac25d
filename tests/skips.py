"""In CI a skipped test counts as a failure, unless it is marked `may_skip`.

A laptop may lack a server, a privilege or torch. In CI (the variable CI is set) a skip would be an unnoticed gap.
"""

import os

import pytest

IN_CI = bool(os.environ.get("CI"))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason for which a test or a file was skipped."""
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def count_as_failure(report: pytest.TestReport | pytest.CollectReport, *, may_skip: bool, in_ci: bool = IN_CI) -> None:
    """Turn a skip into a failure in CI."""
    if in_ci and report.skipped and not may_skip and not hasattr(report, "wasxfail"):
        report.longrepr = f"{reason_of(report)}: CI must have it, or the test be marked may_skip"
        report.outcome = "failed"

"""A skip is a failure in CI."""

import pytest

from tests.skips import count_as_failure


def skipped() -> pytest.TestReport:
    reason = ("test_x.py", 1, "Skipped: no Redis")
    return pytest.TestReport("test_x.py::test_x", ("test_x.py", 1, "test_x"), {}, "skipped", reason, "call")


@pytest.mark.parametrize(
    ("in_ci", "may_skip", "outcome"),
    [(True, False, "failed"), (True, True, "skipped"), (False, False, "skipped")],
)
def test_a_skip_fails_in_ci_unless_the_test_is_allowed_to_skip(in_ci: bool, may_skip: bool, outcome: str) -> None:
    report = skipped()

    count_as_failure(report, may_skip=may_skip, in_ci=in_ci)

    assert report.outcome == outcome
    assert "no Redis" in str(report.longrepr)


def test_an_expected_failure_is_not_a_skip() -> None:
    report = skipped()
    report.wasxfail = "known"

    count_as_failure(report, may_skip=False, in_ci=True)

    assert report.outcome == "skipped"

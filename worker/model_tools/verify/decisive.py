"""Which check stands for a whole run of `verify`."""

from collections.abc import Sequence

from worker.model_tools.verify.checks import Check, Verdict


def decisive_check(checks: Sequence[Check]) -> Check:
    """The first that failed; else the comparison with the checkpoint, if it was made; else the first self check."""
    failed = (check for check in checks if check.has_failed)
    compared = (check for check in checks if check.name == "checkpoint" and check.verdict is not Verdict.LEFT_OUT)
    return next(failed, None) or next(compared, None) or checks[0]

"""Which check stands for a run of `verify`."""

import pytest

from worker.model_tools.verify.checks import Verdict, VerifyCheck, decisive_check


@pytest.mark.parametrize(
    ("verdicts", "decides"),
    [
        ({"slots": Verdict.SAME, "checkpoint": Verdict.TIED}, "checkpoint"),
        ({"slots": Verdict.DIFFERS, "checkpoint": Verdict.SAME}, "slots"),
        ({"slots": Verdict.SAME, "cache": Verdict.DIFFERS, "checkpoint": Verdict.DIFFERS}, "cache"),
        ({"slots": Verdict.SAME, "checkpoint": Verdict.LEFT_OUT}, "slots"),
    ],
)
def test_a_failure_decides_then_the_checkpoint_then_the_model_itself(
    verdicts: dict[str, Verdict], decides: str
) -> None:
    checks = [VerifyCheck(name=name, against="it", verdict=verdict) for name, verdict in verdicts.items()]

    assert decisive_check(checks).name == decides

"""The short form: each fault once, on one or two backends. (The long form: `python -m tests.faults --long`.)"""

from pathlib import Path

import pytest

from tests.faults.__main__ import DOCUMENTS
from tests.faults.scenarios import SCENARIOS, Backend, Scenario, run_scenario

CASES = [(scenario, backend) for scenario in SCENARIOS for backend in scenario.short]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scenario", "backend"), CASES, ids=[f"{s.name}-{backend}" for s, backend in CASES])
def test_after_a_fault_nothing_is_lost_and_nothing_counted_twice(
    tmp_path: Path, scenario: Scenario, backend: Backend
) -> None:
    tried = run_scenario(scenario, backend, tmp_path / "trial", seed=1, documents=DOCUMENTS)

    assert tried.holds, "\n".join(tried.violations)

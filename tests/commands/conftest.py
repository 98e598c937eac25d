"""Commands start no process here; `kvjobs doctor` tries the compiled kernels in one."""

import pytest


@pytest.fixture(autouse=True)
def kernels_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.kernels.trial.try_kernels", lambda: None)

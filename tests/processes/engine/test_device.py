"""A GPU that this onnxruntime cannot use."""

import pytest

from tests.command_line import Kvjobs
from worker.engine.runtime import device


def test_a_gpu_that_onnxruntime_cannot_use_is_refused_with_one_sentence(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_LIST_PROVIDERS", "print('CPUExecutionProvider')")

    refused = kvjobs("worker", "--device", "cuda:0", "--drain")

    assert refused.exit_code == 2
    assert "onnxruntime-gpu" in refused.err

"""A GPU that this onnxruntime cannot use."""

import onnxruntime
import pytest

from tests.command_line import Kvjobs


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this onnxruntime is the one for GPUs"
)
def test_a_gpu_that_onnxruntime_cannot_use_is_one_sentence(kvjobs: Kvjobs) -> None:
    refused = kvjobs("worker", "--device", "cuda:0", "--drain")

    assert refused.exit_code == 2
    assert "onnxruntime-gpu" in refused.err

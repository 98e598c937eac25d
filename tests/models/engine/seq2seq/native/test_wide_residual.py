"""T5 in float16: the residual grows beyond what float16 holds, and results match float32's."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.seq2seq_checkpoints import FAMILIES
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

PAIR = IdPair([5, 9, 17, 33, 4, 80, 1], [7, 50, 3, 22, 9, 11, 1])
LARGE = np.float32(6e4)  # times a feed-forward part: more than 65,504 comes out


def test_a_residual_beyond_float16_gives_the_log_probs_of_float32(tmp_path: Path) -> None:
    checkpoint = FAMILIES["mt5"](tmp_path / "checkpoint")
    (file,) = checkpoint.glob("*.safetensors")
    weights = load_file(file)
    for name in weights:
        if name.endswith("DenseReluDense.wo.weight"):
            weights[name] *= LARGE
    save_file(weights, file, metadata={"format": "pt"})

    fp32, fp16 = (log_probs(checkpoint, tmp_path, precision) for precision in (Precision.FP32, Precision.FP16))

    np.testing.assert_allclose(fp16, fp32, atol=0.02)


def log_probs(checkpoint: Path, folder: Path, precision: Precision) -> np.ndarray:
    added = add_model(Request(source=str(checkpoint), name=precision.value, precision=precision), folder)
    (found,) = NativeSeq2Seq.open(Path(added.path)).new_scorer().log_probs([PAIR], RunContext())
    return found

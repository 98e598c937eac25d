"""Native causal graphs give every token the log-probability of transformers (tests/golden/make_causal_golden.py)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from tests.places import GOLDEN
from worker.engine.causal.native.calls import CallLimits
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.reader import PackedReader
from worker.engine.causal.protocol import Group
from worker.engine.runtime.run_context import RunContext

RECORDED = json.loads((GOLDEN / "causal.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["name"])
def test_every_token_has_the_log_probability_of_transformers(tmp_path: Path, case: dict[str, Any]) -> None:
    """Both with all sequences packed, and with sequences cut into small chunks."""
    checkpoint = write_causal_checkpoint(tmp_path / "checkpoint", **case["arguments"])
    model = NativeCausal.open(write_kv_model(checkpoint, tmp_path / "kv"))
    groups = [Group([], [ids]) for ids in case["sequences"]]

    for limits in (CallLimits(), CallLimits(tokens=20, padded=40, head_rows=11)):
        for index, (found,) in PackedReader(model.graphs, limits).read(groups, RunContext()):
            np.testing.assert_allclose(found, case["log_probs"][index], rtol=0, atol=1e-4)

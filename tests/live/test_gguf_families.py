"""GGUF files of the further families: our graphs of them give the log-probabilities of llama.cpp."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llama_cpp")

from bench.checkpoints.gguf_file import write_gguf
from bench.harness.causal_texts import log_probs_of
from tests.causal_families import IN_GGUF, VOCAB, write_family
from worker.engine.causal.open import open_causal_model
from worker.model_tools.add.add import Request, add_model

_LOOKED_UP = ("gemma", "phi,", "gpt", "bloom", "falcon")  # llama.cpp looks their GELU up in a table of float16


@pytest.mark.parametrize("name", IN_GGUF)
def test_a_family_in_a_gguf_file_gives_the_log_probabilities_of_llama_cpp(name: str, tmp_path: Path) -> None:
    changed = IN_GGUF[name] | ({"sliding_window": None} if name == "phi3" else {})  # which llama.cpp leaves out
    write_gguf(write_family(tmp_path / "tiny", name, **changed), tmp_path / "file.gguf", "f32", pre="gpt-2")
    rng = np.random.default_rng(0)
    sequences = [rng.integers(1, VOCAB, length).tolist() for length in (60, 25, 9)]

    ours, theirs = (
        log_probs_of(open_causal_model(Path(added.path)), sequences)
        for added in (
            add_model(Request(source=str(tmp_path / "file.gguf"), name=str(kept), keep_gguf=kept), tmp_path / "models")
            for kept in (False, True)
        )
    )

    far = 1e-2 if f"{name},".startswith(_LOOKED_UP) else 1e-4
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=far)

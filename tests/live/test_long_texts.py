"""Exports compared with transformers around the limits of a configuration, and settings that exporters leave out.

For all families: python -m bench.long_texts, whose table is in docs/models.md.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("optimum.exporters.onnx")

from bench.long_texts import _SIZES, FAMILIES, VOCAB, Family, export, measure, unlimited, worst, write_checkpoint
from jobs.errors import ModelError
from worker.engine.causal.open import open_causal_model
from worker.model_tools.verify.transformers_references import TransformersCausal
from worker.models.departures.departures import departures_in

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "head_dim": 16, "query_pre_attn_scalar": 16}
FALCON = {
    "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": True,
    "max_position_embeddings": 128, "initializer_range": 0.3,
}  # fmt: skip
DEEPSEEK = {
    "moe_intermediate_size": 32, "num_key_value_heads": 4, "n_shared_experts": 1, "n_routed_experts": 4,
    "kv_lora_rank": 16, "q_lora_rank": None, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 16,
    "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "rope_scaling": None,
}  # fmt: skip
GPT2 = {
    "vocab_size": VOCAB, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64, "initializer_range": 0.3,
    "scale_attn_by_inverse_layer_idx": True,
}  # fmt: skip
UNDIVIDED = GPT2 | {"scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": False}


def exported(place: Path, family: Family) -> tuple[Path, Path]:
    checkpoint = place / "checkpoint"
    write_checkpoint(family, checkpoint)
    return checkpoint, export("Optimum", checkpoint, place / "export")


@pytest.mark.parametrize(
    ("name", "reads", "departs"),
    [
        ("phi3, longrope", 64, True),
        ("falcon, 4 heads", 257, True),
        ("gemma3_text", 256, False),
        ("gpt_neo", 256, False),
    ],
)
def test_texts_are_limited_to_the_length_up_to_which_an_export_is_right(
    tmp_path: Path, name: str, reads: int, departs: bool
) -> None:
    checkpoint, folder = exported(tmp_path, FAMILIES[name])

    row = measure(name, FAMILIES[name], "Optimum", checkpoint, folder)

    assert row.reads == reads
    assert row.before is not None
    assert row.after is not None
    assert (row.before > 1e-2) is departs
    assert row.after < 1e-4


@pytest.mark.parametrize(
    ("model_type", "settings", "own", "what"),
    [
        ("gemma2", CAPS, _SIZES, "attn_logit_softcapping = 2"),
        ("gpt2", GPT2, {}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", UNDIVIDED, {}, "scale_attn_weights = false"),
    ],
)
def test_a_setting_that_an_export_leaves_out_is_reported_and_changes_its_results(
    tmp_path: Path, model_type: str, settings: dict[str, Any], own: dict[str, Any], what: str
) -> None:
    checkpoint, folder = exported(tmp_path, Family(model_type, "", 0, settings, own=own))

    with pytest.raises(ModelError, match=what):
        open_causal_model(folder)
    ids = np.random.default_rng(1).integers(3, VOCAB, 40).tolist()
    assert worst(unlimited(folder), TransformersCausal.open(checkpoint), [ids]) > 0.1


@pytest.mark.parametrize(
    ("model_type", "settings", "own", "heads"),
    [
        ("falcon", FALCON, {}, (1, 16, 16)),
        ("deepseek_v3", DEEPSEEK, _SIZES, (4, 24, 16)),
        ("olmo", {"clip_qkv": 0.5, "num_key_value_heads": 4}, _SIZES, (4, 16, 16)),
    ],
)
def test_an_export_that_keeps_all_settings_has_no_departures(
    tmp_path: Path, model_type: str, settings: dict[str, Any], own: dict[str, Any], heads: tuple[int, int, int]
) -> None:
    checkpoint, folder = exported(tmp_path, Family(model_type, "", 0, settings, own=own))

    model = unlimited(folder)

    assert departures_in(folder).warnings() == []
    cache = model.layout.cache
    assert (cache.num_heads, cache.head_size, cache.value_size) == heads
    ids = np.random.default_rng(1).integers(3, VOCAB, 40).tolist()
    assert worst(model, TransformersCausal.open(checkpoint), [ids]) < 1e-4

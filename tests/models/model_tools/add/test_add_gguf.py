"""`models add` of GGUF files: the same graphs, to the byte, and the same ids as from the checkpoint of the file."""

import json
import math
import shutil
import zlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bench.checkpoints.gguf_file import PRECISIONS, write_gguf
from jobs.errors import ModelError, SpecError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_families import IN_GGUF, write_family
from tests.messages import line_with
from tests.repetition import cover
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.inspect.inspect import inspect_model
from worker.model_tools.verify.causal import VerifiedCausal
from worker.model_tools.verify.checks import Verdict
from worker.model_tools.verify.verify import verify
from worker.models.checkpoint import gguf_config
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder
from worker.text.causal_tokenizer import CausalTokenizer

HUGE = (1 << 32) - 1
GRAPHS = ("body.onnx", "head.onnx", "weights.data")
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, biases, untied": ("llama", {"attention_bias": True, "mlp_bias": True, "tied": False}),
    "llama, Llama 3's positions": ("llama", {"rope_scaling": LLAMA3, "head_size": 32}),
    "llama, half as fast": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "llama, a key for each query": ("llama", {"kv_heads": 4, "rope_theta": 500000.0}),
    "mistral": ("mistral", {"tied": False}),
    "qwen2": ("qwen2", {"kv_heads": 1}),
    "qwen2, yarn": ("qwen2", {"rope_scaling": YARN, "tied": False}),
    "qwen3": ("qwen3", {"head_size": 16, "kv_heads": 4}),
}
TEXTS = ["The snow ", "the rain, then snow; 23 °C", "\n\n  it's 雪 <|endoftext|>\t x", ""]


def checkpoint_in(folder: Path, family: str = "llama", **config: Any) -> Path:
    return write_causal_checkpoint(folder / "tiny", family, ffn=64, **config)


def added(source: Path, name: str, tmp_path: Path, **options: Any) -> Added:
    return add_model(Request(source=str(source), name=name, **options), tmp_path / "models")


def graphs_of(model: Added) -> dict[str, bytes]:
    return {name: (Path(model.path) / name).read_bytes() for name in GRAPHS}


def rounded(checkpoint: Path, folder: Path, precision: str) -> Path:
    """The checkpoint as a quantized file has it: each product quantized and dequantized by llama.cpp's own package."""
    shutil.copytree(checkpoint, folder)
    kind = PRECISIONS[precision]
    weights = {
        name: gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind) if array.ndim == 2 else array
        for name, array in load_file(checkpoint / "model.safetensors").items()
    }
    save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_a_gguf_file_gives_the_graphs_of_its_checkpoint(shape, tmp_path):
    family, config = SHAPES[shape]
    checkpoint = checkpoint_in(tmp_path, family, **config)
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    ours = added(tmp_path / "file.gguf", "ours", tmp_path)

    assert graphs_of(ours) == graphs_of(added(checkpoint, "theirs", tmp_path))


@pytest.mark.parametrize("name", IN_GGUF)
def test_a_gguf_file_of_a_further_family_gives_the_graphs_of_its_checkpoint(name, tmp_path):
    checkpoint = write_family(tmp_path / "tiny", name, **IN_GGUF[name])
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    ours = added(tmp_path / "file.gguf", "ours", tmp_path)

    theirs = graphs_of(added(checkpoint, "theirs", tmp_path))
    assert {name: len(graph) for name, graph in graphs_of(ours).items()} == {
        name: len(graph) for name, graph in theirs.items()
    }
    weights = [np.frombuffer(graphs["weights.data"], np.float32) for graphs in (graphs_of(ours), theirs)]
    np.testing.assert_allclose(*weights, rtol=0, atol=1e-6)  # a norm less 1 has another last bit


@pytest.mark.parametrize(
    ("family", "precision"), cover(["qwen2", "llama", "qwen3"], ["f16", "bf16", "q8_0", "q5_1", "q4_0"])
)
def test_rounded_weights_give_the_graphs_of_the_rounded_checkpoint(family, precision, tmp_path):
    checkpoint = checkpoint_in(tmp_path, family)
    write_gguf(checkpoint, tmp_path / "file.gguf", precision, pre="gpt-2")

    ours = added(tmp_path / "file.gguf", "ours", tmp_path)

    assert graphs_of(ours) == graphs_of(added(rounded(checkpoint, tmp_path / "other", precision), "theirs", tmp_path))


def test_int8_graphs_are_built_of_the_dequantized_weights(tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    write_gguf(checkpoint, tmp_path / "file.gguf", "q8_0", pre="gpt-2")

    ours = added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.INT8)

    theirs = added(rounded(checkpoint, tmp_path / "other", "q8_0"), "theirs", tmp_path, precision=Precision.INT8)
    assert graphs_of(ours) == graphs_of(theirs)
    assert ours.precision == "int8"


def test_the_vocabulary_of_the_file_gives_the_ids_of_the_checkpoints_tokenizer(tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    model = added(tmp_path / "file.gguf", "ours", tmp_path)

    ours, theirs = CausalTokenizer.open(Path(model.path)), CausalTokenizer.open(checkpoint)
    assert [ours.encode(text).ids for text in TEXTS] == [theirs.encode(text).ids for text in TEXTS]
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_id, theirs.eos_id) == (None, 0)
    assert line_with(model.note or "", "vocabulary", "file.gguf", "tokenizer.json")


def test_a_tokenizer_beside_the_file_is_used_in_place_of_its_vocabulary(tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    (tmp_path / "alone").mkdir()
    file = tmp_path / "alone" / "file.gguf"
    write_gguf(checkpoint, file, "f32")  # without a vocabulary
    with pytest.raises(ModelError, match=r"no vocabulary .*tokenizer\.json"):
        added(file, "ours", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(checkpoint / name, file.parent)

    model = added(file, "ours", tmp_path)

    assert (Path(model.path) / "tokenizer.json").read_bytes() == (checkpoint / "tokenizer.json").read_bytes()
    assert line_with(model.note or "", f"{file.parent}/tokenizer.json", "file.gguf")
    assert set(Manifest.read(Path(model.path)).source_files) == {"file.gguf", "tokenizer.json", "tokenizer_config.json"}


def test_a_model_is_named_after_its_file_and_knows_it(tmp_path):
    write_gguf(checkpoint_in(tmp_path), tmp_path / "Tiny-1B.Q8_0.gguf", "q8_0", pre="gpt-2")

    model = add_model(Request(source=str(tmp_path / "Tiny-1B.Q8_0.gguf")), tmp_path / "models")

    assert (model.name, model.source) == ("Tiny-1B.Q8_0", str(tmp_path / "Tiny-1B.Q8_0.gguf"))
    found = inspect_model(ModelFolder(model.name, Path(model.path)))
    assert (found.layout, found.vocab_size, found.max_positions) == ("kv", 300, 128)


def test_verify_compares_with_the_file_itself(tmp_path):
    file = tmp_path / "file.gguf"
    write_gguf(checkpoint_in(tmp_path, "qwen3"), file, "q8_0", pre="gpt-2")
    model = added(file, "ours", tmp_path, precision=Precision.FP16)
    exact = added(file, "exact", tmp_path)

    checks = {check.name: check for check in verified(exact)}
    rounded_checks = {check.name: check for check in verified(model)}

    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(
        ("packed", "cache", "checkpoint"), Verdict.SAME
    )
    assert checks["checkpoint"].against == "checkpoint, in numpy"
    assert rounded_checks["precision"].verdict is Verdict.MEASURED
    with file.open("ab") as end:
        end.write(b"\0")
    assert "has changed" in str({c.name: c for c in verified(exact, 1)}["checkpoint"].note)
    file.unlink()
    assert "this machine" in str({c.name: c for c in verified(exact, 1)}["checkpoint"].note)


def verified(model: Added, limit: int = 4) -> list[Any]:
    folder, family = ModelFolder(model.name, Path(model.path)), VerifiedCausal()
    return list(verify(folder, family.read_sample(folder, None, limit), family))


def test_a_wrong_order_of_queries_would_be_noticed(tmp_path):
    """That is, the tests above would fail if rows of queries and keys stayed as the file has them."""
    checkpoint = checkpoint_in(tmp_path)
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")
    name = "model.layers.0.self_attn.q_proj.weight"

    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "file.gguf").tensors}

    assert not np.array_equal(stored["blk.0.attn_q.weight"].data, load_file(checkpoint / "model.safetensors")[name])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"llama__attention__sliding_window": 64}, r"not supported \(llama\.attention\.sliding_window = 64\)"),
        ({"llama__expert_count": 8}, r"not supported \(llama\.expert_count = 8\)"),
        ({"llama__rope__scaling__type": "longrope"}, r"rope\.scaling\.type = 'longrope'"),
        ({"llama__rope__scaling__type": "linear"}, r"rope\.scaling\.factor = None"),
        ({"llama__context_length": HUGE}, r"llama\.context_length = 4,294,967,295; .*1,048,576 positions"),
        ({"llama__block_count": HUGE}, r"4,294,967,295 layers; .*10,000"),
        (
            {"llama__attention__head_count_kv": 3},
            r"4 attention heads, which is not a multiple of its 3 key/value heads",
        ),
        ({"llama__attention__key_length": HUGE}, r"heads .*4,294,967,295"),
        ({"llama__attention__key_length": 6}, r"value_length = 8 .*size 6"),
        ({"llama__rope__freq_base": math.nan}, r"rope\.freq_base = nan"),
        ({"split__count": 3}, r"3 parts .*`llama-gguf-split --merge`"),
    ],
)
def test_what_the_graphs_would_not_compute_is_refused_by_its_key(values, message, tmp_path):
    write_gguf(checkpoint_in(tmp_path), tmp_path / "file.gguf", "f32", pre="gpt-2", **values)

    with pytest.raises(ModelError, match=message):
        added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.FP32)
    assert not any((tmp_path / "models").iterdir())


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
def test_k_types_give_the_graphs_of_the_dequantized_checkpoint(kind, tmp_path, monkeypatch):
    """The package dequantizes these, and has no quantizer for them: blocks of random bytes stand for the weights."""
    monkeypatch.setitem(PRECISIONS, kind, gguf.GGMLQuantizationType[kind])
    quantize = gguf.quants.quantize
    monkeypatch.setattr(
        gguf.quants, "quantize", lambda array, kind: (random_blocks if array.ndim == 2 else quantize)(array, kind)
    )
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama", width=256, ffn=256)
    write_gguf(checkpoint, tmp_path / "file.gguf", kind, pre="gpt-2")

    ours = added(tmp_path / "file.gguf", "ours", tmp_path)

    assert graphs_of(ours) == graphs_of(added(rounded(checkpoint, tmp_path / "other", kind), "theirs", tmp_path))
    assert ours.bits_per_weight == pytest.approx({"Q4_K": 4.5, "Q6_K": 6.56}[kind], abs=0.2)


def random_blocks(array: np.ndarray[Any, Any], kind: gguf.GGMLQuantizationType) -> np.ndarray[Any, Any]:
    """Blocks with small scales for each row of `array`, the same for equal rows."""
    elements, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    rngs = [np.random.default_rng(zlib.crc32(row.tobytes())) for row in array]
    blocks = np.array([rng.integers(0, 256, (array.shape[1] // elements, num_bytes), np.uint8) for rng in rngs])
    scales = slice(0, 4) if kind is gguf.GGMLQuantizationType.Q4_K else slice(-2, None)
    blocks[..., scales] = np.full((scales.stop or 0) - scales.start >> 1, 0.001, np.float16).view(np.uint8)
    return blocks.reshape(len(array), -1)


def test_types_that_the_package_cannot_dequantize_are_refused_by_name(tmp_path, monkeypatch):
    write_gguf(checkpoint_in(tmp_path), tmp_path / "file.gguf", "q8_0", pre="gpt-2")
    monkeypatch.setattr(gguf_config, "can_read", lambda kind: kind != "Q8_0")

    with pytest.raises(ModelError, match=r"Q8_0.*package gguf"):
        added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.FP32)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "general.architecture",
            "mpt",
            r"has the architecture 'mpt'; of GGUF files, graphs are built of llama, qwen2, qwen3",
        ),
        ("general.type", "adapter", r"holds no whole model \(general\.type is 'adapter'\)"),
    ],
)
def test_files_of_another_kind_are_refused_by_what_they_are(key, value, message, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "file.gguf", "llama")
    writer.add_tensor("token_embd.weight", np.zeros((2, 2), np.float32))
    writer.kv_data[0].pop("general.architecture")
    for name, content in ({"general.architecture": "llama"} | {key: value}).items():
        writer.add_string(name, content)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(ModelError, match=message):
        added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.FP32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights | {"model.layers.0.self_attn.o_proj.bias": np.ones(32, np.float32)},
         r"not part of a qwen2 network \(blk\.0\.attn_output\.bias\)"),
        (lambda weights: {name: array for name, array in weights.items() if "layers.1.mlp.up" not in name},
         r"lacks weights of its network \(model\.layers\.1\.mlp\.up_proj\.weight\)"),
        (lambda weights: weights | {"model.norm.weight": np.ones(64, np.float32)},
         r"the tensor output_norm\.weight of the shape \(64,\), and its metadata give \(32,\)"),
    ],
)  # fmt: skip
def test_weights_that_are_too_few_too_many_or_of_another_shape_are_refused(change, message, tmp_path):
    checkpoint = checkpoint_in(tmp_path, "qwen2")
    save_file(change(load_file(checkpoint / "model.safetensors")), checkpoint / "model.safetensors")
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    with pytest.raises(ModelError, match=message):
        added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.FP32)


def test_merges_of_tokens_that_the_vocabulary_lacks_are_refused_by_the_name_of_the_file(tmp_path):
    checkpoint = checkpoint_in(tmp_path)
    tokenizer = read_json(checkpoint / "tokenizer.json")
    tokenizer["model"]["merges"].append(["xx", "y"])
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    with pytest.raises(ModelError, match=r"/file\.gguf .*vocabulary"):
        added(tmp_path / "file.gguf", "ours", tmp_path)


def test_options_that_do_not_apply_to_a_gguf_file_are_refused(tmp_path):
    write_gguf(checkpoint_in(tmp_path), tmp_path / "file.gguf", "f32", pre="gpt-2")

    with pytest.raises(SpecError, match=r"--head .*apply"):
        added(tmp_path / "file.gguf", "ours", tmp_path, head=HeadChoice.FULL)
    with pytest.raises(SpecError, match=r"--checkpoint .*apply"):
        added(tmp_path / "file.gguf", "ours", tmp_path, checkpoint=str(tmp_path))


def test_settings_of_llama_3_are_found_from_the_divisors_of_its_frequencies(tmp_path):
    checkpoint = checkpoint_in(tmp_path, head_size=128, rope_scaling=LLAMA3 | {"original_max_position_embeddings": 64})
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    model = added(tmp_path / "file.gguf", "ours", tmp_path)

    assert read_json(Path(model.path) / "config.json")["rope_scaling"] == LLAMA3 | {
        "original_max_position_embeddings": 64
    }


def test_a_scaling_like_llama_3s_with_other_factors_is_refused(tmp_path):
    checkpoint = checkpoint_in(tmp_path, head_size=128, rope_scaling=LLAMA3 | {"high_freq_factor": 7.0})
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")

    with pytest.raises(ModelError, match=r"positions .*rope_freqs\.weight"):
        added(tmp_path / "file.gguf", "ours", tmp_path, precision=Precision.FP32)


def test_the_manifest_is_what_another_folder_of_models_copies(tmp_path):
    write_gguf(checkpoint_in(tmp_path), tmp_path / "file.gguf", "f32", pre="gpt-2")
    model = added(tmp_path / "file.gguf", "ours", tmp_path)

    copy = add_model(Request(source=model.path), tmp_path / "others")

    assert json.loads((Path(copy.path) / "kvjobs.json").read_text())["source"] == str(tmp_path / "file.gguf")

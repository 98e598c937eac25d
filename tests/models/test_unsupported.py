"""Checkpoints that cannot be built correctly are refused with the reason; those that only look so are built."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_families import FAMILIES, write_family
from tests.checkpoints import write_marian_checkpoint
from tests.messages import line_with
from tests.places import GOLDEN
from worker.graphs.causal import weights as causal_weights
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.graphs import write_causal
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import write_seq2seq
from worker.graphs.seq2seq.tensor_names import tensor_names
from worker.model_tools.add.add import Request, add_model
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.required_files import check_files
from worker.models.model_folder import ModelFolder

TINY = GOLDEN / "tiny-swish-tied"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_causal_checkpoint(tmp_path / "tiny", "qwen2")


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def change_weights(folder: Path, change: Any) -> None:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file)


def add(source: Path, models_dir: Path) -> dict[str, bytes]:
    """Add the model; return the bytes of its graphs and weights."""
    path = Path(add_model(Request(source=str(source)), models_dir).path)
    return {file.name: file.read_bytes() for file in path.iterdir() if file.suffix in (".onnx", ".data")}


# --- quantized


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"quant_method": "gptq", "bits": 4}, "GPTQ"),
        ({"quant_method": "awq"}, "AWQ"),
        ({"quant_method": "fp8"}, "FP8"),
        ({"quant_method": "bitnet"}, "BitNet"),
        ({"quant_method": "compressed-tensors", "format": "fakequant"}, "compressed-tensors"),
        ({"load_in_8bit": True}, "bitsandbytes, 8 bits"),
        ({"quant_method": "of-tomorrow"}, "quant_method of-tomorrow"),
        ({"bits": 2}, "no quant_method"),
        ("4 bits", "no quant_method"),
    ],
)
def test_a_quantized_checkpoint_is_refused_by_the_name_of_its_method(folder, config, method):
    change_config(folder, quantization_config=config)

    with pytest.raises(ModelError, match=rf"/tiny .*quantized \({method}; .*quantization_config .*int8"):
        Checkpoint.open(folder)


def test_the_older_name_of_compressed_tensors_is_recognized_too(folder):
    change_config(folder, compression_config={"format": "pack-quantized"})

    with pytest.raises(ModelError, match=r"quantized \(.*compression_config .*config\.json"):
        Checkpoint.open(folder)


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_configuration_that_names_no_quantization_is_built(folder, nothing):
    change_config(folder, quantization_config=nothing)

    assert Checkpoint.open(folder).architecture == "qwen2"


# --- custom code


@pytest.mark.parametrize(
    "change",
    [
        {"auto_map": {"AutoModelForCausalLM": "modeling.OtherForCausalLM", "AutoConfig": "modeling.Qwen2Config"}},
        {"auto_map": {"AutoModelForCausalLM": "modeling.Qwen2ForCausalLM", "AutoConfig": "modeling.Config"}},
        {"model_type": "of-its-own"},  # which transformers has no class for
        {"model_type": None},
    ],
    ids=["class", "configuration", "type", "no type"],
)
def test_a_network_with_custom_code_is_refused_even_if_it_names_a_supported_architecture(folder, change):
    code = {"AutoModelForCausalLM": "modeling.Qwen2ForCausalLM", "AutoConfig": "modeling.Qwen2Config"}
    change_config(folder, **{"auto_map": code} | change)

    with pytest.raises(ModelError, match=r"/tiny .*\(AutoConfig, AutoModelForCausalLM .*auto_map"):
        Checkpoint.open(folder)


@pytest.mark.parametrize("family", ["phi3", "falcon", "gpt2"])
def test_code_of_a_class_that_transformers_has_is_not_run_and_the_user_is_told(tmp_path, family):
    """As transformers does without trust_remote_code: Phi-3-mini and Falcon-7B are published so."""
    checkpoint = tmp_path / "checkpoint"
    write_family(checkpoint, family)
    plain = add(checkpoint, tmp_path / "plain")
    named = json.loads((checkpoint / "config.json").read_text())["architectures"][0]
    stem = named.removesuffix("ForCausalLM").removesuffix("LMHeadModel")
    code = {"AutoConfig": f"configuration.{stem}Config", "AutoModelForCausalLM": f"owner/name--modeling.{named}"}
    change_config(checkpoint, auto_map=code)

    added = add_model(Request(source=str(checkpoint)), tmp_path / "models")

    assert {name: (Path(added.path) / name).read_bytes() for name in plain} == plain
    assert line_with(added.note or "", "not run", f"{named}", "transformers")


def test_code_that_lets_tokens_attend_to_later_ones_is_refused(folder):
    """gte-Qwen2 is published so, with classes of the names that transformers has."""
    change_config(folder, auto_map={"AutoModelForCausalLM": "modeling.Qwen2ForCausalLM"}, is_causal=False)

    with pytest.raises(ModelError, match=r"/tiny .*is_causal = false"):
        Checkpoint.open(folder)


def test_custom_code_of_a_tokenizer_is_ignored(folder):
    change_config(folder, auto_map={"AutoTokenizer": ["tokenization.Tokenizer", None]})

    assert Checkpoint.open(folder).architecture == "qwen2"


# --- other forms


def test_an_adapter_is_refused_with_how_to_merge_it(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "a/b"}')
    (adapter / "adapter_model.safetensors").write_bytes(b"\0")

    for made in (adapter, shutil.copytree(folder, adapter, dirs_exist_ok=True)):
        with pytest.raises(ModelError, match=r"/adapter .*LoRA .*merge_and_unload\(\)"):
            add(made, tmp_path / "models")


def test_a_folder_of_gguf_files_is_refused_with_the_command_that_names_a_file(folder, tmp_path):
    quantized = tmp_path / "quantized"
    quantized.mkdir()
    (quantized / "model-Q4_K_M.gguf").write_bytes(b"GGUF")

    with pytest.raises(ModelError, match=r"llama\.cpp.*/model-Q4_K_M\.gguf`"):
        add(quantized, tmp_path / "models")
    with pytest.raises(ModelError, match=r"llama\.cpp's format"):
        check_files(ModelFolder("m", quantized))
    shutil.copy(quantized / "model-Q4_K_M.gguf", folder)
    assert Checkpoint.open(folder).architecture == "qwen2", "with weights beside it, it is built of those"


@pytest.mark.parametrize("config", [{"model_type": None}, {"architectures": None}], ids=["no type", "no class"])
def test_an_export_with_an_old_configuration_is_recognized_by_class_or_type(tmp_path, config):
    """By the class if there is no model_type; as Marian if there is neither."""
    folder = tmp_path / "exported"
    shutil.copytree(TINY, folder)
    for name in ("source.spm", "target.spm", "vocab.json"):
        (folder / name).write_text("{}")
    change_config(folder, **{"model_type": None, "architectures": ["BlenderbotForConditionalGeneration"]} | config)

    if config == {"model_type": None}:
        message = r"is an export of BlenderbotForConditionalGeneration \(architectures in its config.json\)"
        with pytest.raises(ModelError, match=message):
            check_files(ModelFolder("m", folder))
    else:
        check_files(ModelFolder("m", folder))


@pytest.mark.parametrize("name", ["model_quantized.onnx", "onnx/decoder_model.onnx", "encoder_model_fp16.onnx"])
def test_graphs_with_unexpected_file_names_are_named(tmp_path, name):
    folder = tmp_path / "exported"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"graph")
    (folder / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')

    with pytest.raises(ModelError, match=rf"graphs .*\({name}\).*rename"):
        add(folder, tmp_path / "models")


@pytest.mark.parametrize("model_type", ["umt5", "blenderbot"])
@pytest.mark.parametrize("has_spm", [True, False])
def test_an_export_of_another_translation_architecture_is_refused_by_name(tmp_path, model_type, has_spm):
    folder = tmp_path / "exported"
    shutil.copytree(TINY, folder)
    change_config(folder, model_type=model_type)
    for name in ("source.spm", "target.spm", "vocab.json") if has_spm else ():
        (folder / name).write_text("{}")
    message = rf"/exported is an export of {model_type} .*, which kvjobs cannot translate with yet: take a model"

    with pytest.raises(ModelError, match=message):
        check_files(ModelFolder("m", folder))
    with pytest.raises(ModelError, match=message):
        add(folder, tmp_path / "models")


# --- tensors


@pytest.mark.parametrize(
    "extra",
    [
        "model.layers.0.self_attn.o_proj.bias",  # Qwen2 has no such bias
        "model.layers.1.self_attn.q_proj.lora_A.weight",
        "model.layers.2.mlp.up_proj.weight",  # one layer more than in config.json
        "score.weight",
    ],
)
def test_a_tensor_that_no_graph_reads_is_refused_by_name(folder, extra):
    change_weights(folder, lambda weights: weights | {extra: np.ones(4, np.float32)})

    with pytest.raises(ModelError, match=rf"/tiny .*qwen2 network .*\({re.escape(extra)}\)"):
        Checkpoint.open(folder)


def test_many_unread_tensors_are_refused_with_a_few_names(folder):
    change_weights(folder, lambda weights: weights | {f"mtp.{i}": np.ones(1, np.float32) for i in range(9)})

    with pytest.raises(ModelError, match=r"\(mtp\.0, mtp\.1, mtp\.2 and 6 more\)"):
        Checkpoint.open(folder)


def test_buffers_of_older_versions_are_ignored(folder, tmp_path):
    expected = add(folder, tmp_path / "models")
    buffers = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32) for i in range(2)}
    change_weights(folder, lambda weights: weights | buffers | {"lm_head.weight": weights["model.embed_tokens.weight"]})

    assert add(folder, tmp_path / "others") == expected


class Recorded(dict[str, Any]):
    """Weights that record which tensors were read."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("llama", {"tied": False}),
        ("mistral", {}),
        ("qwen2", {"tied": False}),
        ("qwen3", {"attention_bias": True}),
    ],
)
def test_the_expected_names_of_a_causal_checkpoint_are_those_that_its_graph_reads(tmp_path, family, config):
    checkpoint = Checkpoint.open(write_causal_checkpoint(tmp_path / "tiny", family, **config))
    weights = Recorded(checkpoint.weights)

    write_causal(tmp_path, checkpoint.config, weights, precision=Precision.FP32)

    names = causal_weights.tensor_names(read_sizes(checkpoint.config))
    assert weights.read == weights.keys()
    assert names - weights.read <= {"lm_head.weight"}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_expected_names_of_a_family_are_those_that_its_graph_reads(tmp_path, name):
    checkpoint = Checkpoint.open(write_family(tmp_path / "tiny", name))
    weights = Recorded(checkpoint.weights)

    write_causal(tmp_path, checkpoint.config, weights, precision=Precision.FP32)

    sizes = read_sizes(checkpoint.config)
    assert weights.read == weights.keys()
    assert causal_weights.tensor_names(sizes) - weights.read <= {f"{sizes.tensors.head}.weight"}


@pytest.mark.parametrize("target_vocab_size", [None, 60])
def test_the_expected_names_of_a_marian_checkpoint_are_those_that_its_graph_reads(tmp_path, target_vocab_size):
    checkpoint = Checkpoint.open(write_marian_checkpoint(tmp_path / "tiny", target_vocab_size=target_vocab_size))
    weights = Recorded(checkpoint.weights)

    write_seq2seq(tmp_path, checkpoint.config, weights, precision=Precision.FP32)

    names = tensor_names(read_network(checkpoint.config))
    tied = {
        "lm_head.weight",
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    }
    positions = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
    assert weights.read <= names
    assert names - weights.read <= tied | positions


# --- checkpoints without a head


def without_head(weights: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("model."): weight for name, weight in weights.items() if not name.startswith("lm_head")}


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("named", [True, False])
def test_a_checkpoint_saved_without_its_tied_head_gives_the_same_graphs(tmp_path, family, named):
    folder = write_causal_checkpoint(tmp_path / "tiny", family)
    expected = add(folder, tmp_path / "models")
    change_weights(folder, without_head)
    if named:
        architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
        change_config(folder, architectures=[architecture.replace("ForCausalLM", "Model")])

    assert add(folder, tmp_path / "others") == expected


@pytest.mark.parametrize("name", ["gpt2", "opt", "bloom", "falcon", "gpt_neox, tied"])
def test_a_family_saved_without_its_head_is_read_as_the_whole(tmp_path, name):
    """Names lack transformer., model. or gpt_neox., as those of the published GPT-2 and BLOOM do."""
    changed = {"tie_word_embeddings": True} if name == "gpt_neox, tied" else {}
    folder = write_family(tmp_path / "tiny", name.partition(",")[0], **changed)
    whole = {*Checkpoint.open(folder).weights}
    change_weights(folder, lambda weights: {key.partition(".")[2]: value for key, value in weights.items()})
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    change_config(folder, architectures=[architecture.replace("ForCausalLM", "Model").replace("LMHeadModel", "Model")])

    assert {*Checkpoint.open(folder).weights} == whole


def test_masks_that_older_versions_saved_are_ignored(tmp_path):
    folder = write_family(tmp_path / "tiny", "gpt2")
    whole = {*Checkpoint.open(folder).weights}
    mask = np.ones((1, 1, 8, 8), np.float32)
    change_weights(folder, lambda weights: weights | {"transformer.h.0.attn.bias": mask})

    assert {*Checkpoint.open(folder).weights} == whole | {"transformer.h.0.attn.bias"}


@pytest.mark.parametrize(
    ("architecture", "experts"),
    [
        ("Qwen3MoeForCausalLM", {"num_experts": 128}),
        ("MixtralForCausalLM", {"num_local_experts": 8}),
        ("DeepseekV3ForCausalLM", {"n_routed_experts": 256}),
    ],
)
def test_a_mixture_of_experts_is_refused_by_name(folder, architecture, experts):
    change_config(folder, architectures=[architecture], **experts)

    ((name, count),) = experts.items()
    with pytest.raises(ModelError, match=rf"experts \({architecture};.*{name} = {count} "):
        Checkpoint.open(folder)


@pytest.mark.parametrize("architecture", ["LlamaModel", "LlamaForCausalLM"])
def test_a_checkpoint_without_its_untied_head_is_refused(tmp_path, architecture):
    folder = write_causal_checkpoint(tmp_path / "tiny", "llama", tied=False)
    change_weights(folder, without_head)
    change_config(folder, architectures=[architecture])

    with pytest.raises(ModelError, match=r"/tiny .*head \(lm_head\.weight\).*probabilities"):
        Checkpoint.open(folder)

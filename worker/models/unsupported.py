"""
Checkpoints for which kvjobs builds no graphs: they are refused, with the reason, before weights are downloaded or read.

    quantized    quantization_config in config.json: weights are packed, or rounded while the model runs
    custom code  auto_map in config.json: a Python file beside it defines what the model computes, and transformers has
                 no class of its own for it
    mixture      num_experts or the like in config.json: a router chooses the products for each token
    adapter      adapter_config.json: differences from the weights of another model (LoRA and the like)
    GGUF         *.gguf, the format of llama.cpp: read as a file that is named itself, never searched in a folder

Knows: config.json and the names of files. Does not know: tensors. Needs only the standard library.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import ARCHITECTURES

ADAPTER = "adapter_config.json"
GGUF = ".gguf"

# quant_method in transformers 4.57 (utils/quantization_config.py) -> the name of the method.
_METHODS = {
    "aqlm": "AQLM",
    "auto-round": "AutoRound",
    "awq": "AWQ",
    "bitnet": "BitNet",
    "bitsandbytes": "bitsandbytes",
    "bitsandbytes_4bit": "bitsandbytes, 4 bits",
    "bitsandbytes_8bit": "bitsandbytes, 8 bits",
    "compressed-tensors": "compressed-tensors",
    "eetq": "EETQ",
    "fbgemm_fp8": "FP8",
    "fp8": "FP8",
    "fp_quant": "FP-Quant",
    "gptq": "GPTQ",
    "higgs": "HIGGS",
    "hqq": "HQQ",
    "mxfp4": "MXFP4",
    "quanto": "Quanto",
    "quark": "Quark",
    "spqr": "SpQR",
    "torchao": "torchao",
    "vptq": "VPTQ",
}
_LOAD = {"bitsandbytes_4bit": "load_in_4bit", "bitsandbytes_8bit": "load_in_8bit"}  # older files, without quant_method
_QUANTIZATION = ("quantization_config", "compression_config")  # the second: early compressed-tensors
# The number of experts of a layer, in Qwen2/3-MoE and OLMoE, Mixtral, PhiMoE and GraniteMoE, DeepSeek, ERNIE.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_NO_NETWORK = (
    "AutoTokenizer",
    "AutoProcessor",
    "AutoFeatureExtractor",
    "AutoImageProcessor",
)  # not part of the network
_MERGE = (
    "python -c \"from peft import AutoPeftModelForCausalLM as M; M.from_pretrained('{name}').merge_and_unload()"
    ".save_pretrained('FOLDER')\""
)


def refuse_quantized(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelError for a checkpoint `name` whose config.json names a quantization.

    Also where weights are stored as floats ("fake" quantization): such a model rounds them as it runs.
    """
    for key in _QUANTIZATION:
        settings = config.get(key)
        if not settings:
            continue
        method = ""
        if isinstance(settings, Mapping):
            method = str(settings.get("quant_method") or "")
            method = method or next((kind for kind, flag in _LOAD.items() if settings.get(flag)), "")
        known = _METHODS.get(method.lower(), f"quant_method {method}" if method else "no quant_method")
        raise ModelError(
            f"{name} is quantized ({known}; {key} in config.json), and graphs are built of unquantized weights: take "
            "the checkpoint that it was made from, with --precision int8 if it should be small"
        )


def refuse_custom_code(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelError for a checkpoint `name` that brings Python code for its network.

    Phi-3, Falcon and others bring the code of the class that transformers has had since: transformers itself does not
    run it unless it is told to (`trust_remote_code`), and takes its own class; so the graph follows that class, too.
    Custom code of a tokenizer is accepted: tokenizer.json is read instead.
    """
    classes = _custom_classes(config)
    if not classes:
        return
    if not _is_in_transformers(config, classes.values()):
        raise ModelError(
            f"{name} brings code of its own ({', '.join(sorted(classes))} of auto_map in config.json), which is not "
            "run and may compute something else than the architecture that it names: take a checkpoint without such "
            "code, or an ONNX export of it; if you know that the code changes nothing, remove auto_map from config.json"
        )
    if config.get("is_causal") is False:  # gte-Qwen2, which names Qwen2ForCausalLM
        raise ModelError(
            f"{name} brings code of its own that lets each token attend to later ones (is_causal = false in "
            "config.json), which a causal language model does not do: take another model"
        )


def ignored_code(config: Mapping[str, Any]) -> str | None:
    """A remark for the user on code that a checkpoint brings and that is not run; None: it brings none."""
    if not (classes := _custom_classes(config)):
        return None
    return (
        f"The model brings code of its own ({', '.join(sorted(classes))} of auto_map in config.json), which is not "
        f"run: the graph computes what {config['architectures'][0]} of transformers does, as there without "
        "trust_remote_code."
    )


def _custom_classes(config: Mapping[str, Any]) -> dict[str, str]:
    """The classes of the network that auto_map names, such as modeling_phi3.Phi3ForCausalLM, by their Auto class."""
    auto_map = config.get("auto_map")
    if not isinstance(auto_map, Mapping):
        return {}
    return {str(key): str(value) for key, value in auto_map.items() if key not in _NO_NETWORK}


def _is_in_transformers(config: Mapping[str, Any], classes: Iterable[str]) -> bool:
    """Whether auto_map names classes of a network that transformers has, by the same names."""
    named = config.get("architectures")
    if not isinstance(named, list) or len(named) != 1 or not config.get("model_type"):
        return False
    if ARCHITECTURES.get(str(named[0])) != config["model_type"]:
        return False
    family = re.split("For[A-Z]|LMHeadModel", str(named[0]))[0]
    own = re.compile(f"{re.escape(family)}(Config|Model|PreTrainedModel|LMHeadModel|For[A-Z][A-Za-z]+)")
    return all(own.fullmatch(name.rpartition(".")[2]) for name in classes)


def refuse_mixture(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelError for a checkpoint `name` that is a mixture of experts."""
    for key in _EXPERTS:
        count = config.get(key)
        if type(count) is int and count > 1:
            named = config.get("architectures")
            what = str(named[0]) if isinstance(named, list) and named else str(config.get("model_type"))
            raise ModelError(
                f"{name} is a mixture of experts ({what}; {key} = {count} in config.json), which sends each token "
                "through other products, and no graphs are built for that: take a model without experts, or a GGUF "
                "file of this one, which llama.cpp runs (`kvjobs models add FILE.gguf`)"
            )


def refuse_files(names: Collection[str], name: str) -> None:
    """Raise ModelError where a folder or repository `name` holds an adapter, or nothing but GGUF files."""
    if ADAPTER in names:
        raise ModelError(
            f"{name} is an adapter (LoRA or the like: it has {ADAPTER}), not a whole model: merge it into the model "
            f"that it adapts, for example with `{_MERGE.format(name=name)}` (of a translation model, "
            "AutoPeftModelForSeq2SeqLM), put that model's tokenizer beside it, and add the folder"
        )
    gguf = sorted(file for file in names if file.endswith(GGUF))
    if gguf and not any(file.endswith((".safetensors", ".bin", ".onnx")) for file in names):
        raise ModelError(
            f"{name} holds a model in llama.cpp's format ({gguf[0]}): name the file itself, `kvjobs models add "
            f"PATH/{gguf[0]}` (from the hub, download it first), or take the checkpoint that it was made from"
        )


def is_gguf_file(path: Path) -> bool:
    """Whether this is a file by the name of a GGUF file."""
    return path.suffix == GGUF and path.is_file()

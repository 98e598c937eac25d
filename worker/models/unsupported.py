"""
Models that look like checkpoints and of which no graph is built: refused by name, before weights are fetched or read.

    quantized    quantization_config in config.json: weights are packed, or are to be rounded while the model runs
    own code     auto_map in config.json: what the model computes stands in a Python file beside it
    an adapter   adapter_config.json: differences from the weights of another model (LoRA and its kin)
    GGUF         *.gguf, the format of llama.cpp

Knows: what config.json and the names of files say. Does not know: tensors. Standard library alone: the registry imports
this.
"""

from collections.abc import Collection, Mapping
from typing import Any

from jobs.errors import ModelError

ADAPTER = "adapter_config.json"
GGUF = ".gguf"

# quant_method in transformers 4.57 (utils/quantization_config.py) -> what people call it.
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
_LOAD = {"bitsandbytes_4bit": "load_in_4bit", "bitsandbytes_8bit": "load_in_8bit"}  # before there was a quant_method
_QUANTIZATION = ("quantization_config", "compression_config")  # the second is what compressed-tensors wrote at first
_NOT_RUN = ("AutoTokenizer", "AutoProcessor", "AutoFeatureExtractor", "AutoImageProcessor")  # of no graph
_MERGE = (
    "python -c \"from peft import AutoPeftModelForCausalLM as M; M.from_pretrained('{name}').merge_and_unload()"
    ".save_pretrained('FOLDER')\""
)


def refuse_quantized(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelError for a checkpoint `name` whose config.json says that its weights were quantized.

    Also where they are stored as floats ("fake" quantization): the model is meant to round them as it runs.
    """
    for key in _QUANTIZATION:
        said = config.get(key)
        if not said:
            continue
        method = str(said.get("quant_method") or "") if isinstance(said, Mapping) else ""
        if not method and isinstance(said, Mapping):
            method = next((kind for kind in ("bitsandbytes_4bit", "bitsandbytes_8bit") if said.get(_LOAD[kind])), "")
        known = _METHODS.get(method.lower(), f"quant_method {method}" if method else "it does not say how")
        raise ModelError(
            f"{name} is quantized ({known}; {key} in config.json), and graphs are built of unquantized weights: take "
            "the checkpoint that it was made from, with --precision int8 where it should be small"
        )


def refuse_own_code(config: Mapping[str, Any], name: str) -> None:
    """Raise ModelError for a checkpoint `name` that brings Python code for its network, whatever class it claims to be.

    gte-Qwen2, say, names Qwen2ForCausalLM and lets each token see those behind it. A tokenizer's code is no matter:
    tokenizer.json is read in its place.
    """
    said = config.get("auto_map")
    own = sorted(str(key) for key in said if key not in _NOT_RUN) if isinstance(said, Mapping) else []
    if own:
        raise ModelError(
            f"{name} brings code of its own ({', '.join(own)} of auto_map in config.json), which is not run, and may "
            "compute something else than the architecture that it names: take a checkpoint without such code, or an "
            "ONNX export of it; where you know that the code changes nothing, remove auto_map from config.json"
        )


def refuse_files(names: Collection[str], name: str) -> None:
    """Raise ModelError where the files of a folder or repository `name` are an adapter, or are in GGUF alone."""
    if ADAPTER in names:
        raise ModelError(
            f"{name} is an adapter (LoRA or the like: it has {ADAPTER}), not a whole model: merge it into the model "
            f"that it adapts, for example with `{_MERGE.format(name=name)}`, put that model's tokenizer beside it, and "
            "add the folder"
        )
    gguf = sorted(file for file in names if file.endswith(GGUF))
    if gguf and not any(file.endswith((".safetensors", ".bin", ".onnx")) for file in names):
        raise ModelError(refused_gguf(name, gguf[0]))


def refused_gguf(name: str, file: str) -> str:
    """What is said of a model in GGUF."""
    return (
        f"{name} is in llama.cpp's format ({file}), which is not read: take the checkpoint that it was made from, with "
        "--precision int8 where it should be small"
    )

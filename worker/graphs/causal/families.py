"""
The families of causal networks: which reader describes the network of a config.json.

Knows: names of families. Does not know: settings, graphs.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, architecture_of
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.gated_families import (
    read_granite,
    read_llama,
    read_olmo,
    read_phi3,
    read_qwen,
    read_smollm3,
    read_stablelm,
)
from worker.graphs.causal.gemma_families import read_gemma, read_gemma2
from worker.graphs.causal.plain_families import (
    read_bloom,
    read_falcon,
    read_gpt2,
    read_gpt_neox,
    read_opt,
    read_phi,
)
from worker.graphs.causal.sizes import CausalSizes

_READERS: dict[str, Callable[[ConfigReader, str], CausalSizes]] = {
    "llama": read_llama,
    "mistral": read_llama,
    "qwen2": read_qwen,
    "qwen3": read_qwen,
    "gemma": read_gemma,
    "granite": read_granite,
    "olmo": read_olmo,
    "olmo2": read_olmo,
    "stablelm": read_stablelm,
    "smollm3": read_smollm3,
    "phi3": read_phi3,
    "gemma2": read_gemma2,
    "gemma3_text": read_gemma2,
    "gpt_neox": read_gpt_neox,
    "phi": read_phi,
    "gpt2": read_gpt2,
    "opt": read_opt,
    "bloom": read_bloom,
    "falcon": read_falcon,
}


def read_sizes(config: Mapping[str, Any]) -> CausalSizes:
    """The description of the network, from config.json. Raises ModelError that names what is missing or not
    supported."""
    family = _family_of(config)
    return _READERS[family](ConfigReader(config), family)


def _family_of(config: Mapping[str, Any]) -> str:
    """Raise ModelError that names the known families where a config.json is of none of them."""
    family = architecture_of(config)
    if family in _READERS:
        return str(family)
    named = config.get("architectures") or []
    names = ", ".join(map(str, named)) if isinstance(named, list) and named else config.get("model_type")
    raise ModelError(
        f"the architecture {names or '(config.json names none)'} is not supported; supported are "
        f"{', '.join(CAUSAL_ARCHITECTURES)}"
    )

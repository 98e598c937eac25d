"""
Whether a graph normalizes as its architecture does.

LayerNorm subtracts the mean and RMSNorm does not. onnxruntime-genai's graph of OLMo has the second where the model has
the first.
"""

from collections.abc import Iterator
from pathlib import Path

from worker.models.departures.evidence import Contradiction, Departure
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig

# Architectures of transformers 4.57 with LayerNorm alone, by model_type.
_WITH_MEAN = {
    "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "nemotron", "olmo",
    "opt", "phi", "stablelm", "starcoder2",
}  # fmt: skip
_WITHOUT = ("RMSNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization")


def norm_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """RMSNorm where the architecture that the configuration names has LayerNorm."""
    name = config.said.get("model_type") or config.said.get("type")  # the second in genai_config.json
    if isinstance(name, str) and name in _WITH_MEAN and content.of(*_WITHOUT):
        yield Contradiction(
            f"{Path(config.file).name} names the architecture {name}, which normalizes by LayerNorm, and the graph "
            "does by RMSNorm"
        )

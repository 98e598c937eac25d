"""
Whether a graph normalizes as its architecture does.

LayerNorm subtracts the mean, RMSNorm does not. onnxruntime-genai's graph of OLMo has RMSNorm where the model has
LayerNorm.
"""

from collections.abc import Iterator
from pathlib import Path

from worker.models.departures.evidence import Contradiction, Departure
from worker.models.departures.graph_content import GraphContent
from worker.models.layout.causal_config import CausalConfig

# model_type of the architectures of transformers 4.57 that have LayerNorm alone.
_WITH_LAYER_NORM = {
    "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "nemotron", "olmo",
    "opt", "phi", "stablelm", "starcoder2",
}  # fmt: skip
_RMS_NORMS = ("RMSNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization")


def norm_departures(content: GraphContent, config: CausalConfig) -> Iterator[Departure]:
    """A contradiction where the graph has RMSNorm and the architecture LayerNorm."""
    name = config.content.get("model_type") or config.content.get("type")  # `type` in genai_config.json
    if isinstance(name, str) and name in _WITH_LAYER_NORM and content.nodes_of(*_RMS_NORMS):
        yield Contradiction(
            f"{Path(config.file).name} names the architecture {name}, which normalizes by LayerNorm, and the graph "
            "does by RMSNorm"
        )

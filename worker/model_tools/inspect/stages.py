"""The stages of a split causal model, for people: what each has, what it costs, and where it runs."""

from dataclasses import dataclass
from pathlib import Path

from worker.graphs.causal_stages import stage_costs
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.file_names import stage_weights
from worker.graphs.precision import Precision
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest


@dataclass(frozen=True, slots=True)
class StageDescription:
    """A stage. Bytes of the cache and of what is sent are those of one token."""

    number: int
    device: str
    layers: int
    has_embeddings: bool
    has_head: bool
    cost: float  # its share of all multiply-adds of a token
    weights_bytes: int
    cache_bytes: int
    sent_bytes: int  # to the next stage; of the last: the hidden state


def describe_stages(folder: Path, manifest: Manifest) -> tuple[StageDescription, ...]:
    """The stages of the model in a folder; none of a model in one piece. Raises ModelError where it is damaged."""
    if manifest.split is None:
        return ()
    sizes = CausalSizes.read(read_json(folder / CONFIG))
    places, item = manifest.split.stages, Precision(manifest.precision or Precision.FP32).float_dtype.itemsize
    costs, last = stage_costs(sizes, manifest.split.layers()), len(places) - 1
    return tuple(
        StageDescription(
            number=number,
            device=place.device,
            layers=place.layers,
            has_embeddings=number == 0,
            has_head=number == last,
            cost=cost / sum(costs),
            weights_bytes=(folder / stage_weights(number)).stat().st_size,
            cache_bytes=2 * place.layers * sizes.kv_heads * sizes.head_size * item,
            sent_bytes=sizes.width * item,
        )
        for number, (place, cost) in enumerate(zip(places, costs, strict=True))
    )

"""The causal part of `split`: a causal language model is cut between two layers, and its stages are tried."""

from pathlib import Path

from jobs.errors import SpecError
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.graphs.causal_stages import cut_layers, write_stages
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.precision import Precision
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

_TRIED = [0, 1, 0, 1]  # ids that every vocabulary has


def cut_causal(folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[range, ...]:
    """Write the stages of a model into `target`; the layers of each. Raises SpecError where it has too few layers,
    ModelError where it is damaged."""
    sizes = CausalSizes.read(read_json(folder.path / CONFIG))
    if stages > sizes.layers:
        raise SpecError(
            f"{folder.name} has {sizes.layers} layers, so it can be split into {sizes.layers} stages at most"
        )
    layers = cut_layers(sizes, stages)
    write_stages(folder.path, target, sizes, Precision(manifest.precision or Precision.FP32), layers)
    return layers


def try_stages(folder: Path) -> None:
    """Open every stage as a worker does, and read a few tokens. Raises what that raises: ModelError where a stage
    cannot be opened, StageDied where its process ended."""
    model = open_causal_model(folder)
    read_all(model.new_reader(), [Group([], [_TRIED])], RunContext())

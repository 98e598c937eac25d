"""The causal part of `split`: a causal language model is cut between two layers, and its stages are tried."""

from pathlib import Path

from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.stages import cut_causal, write_stages
from worker.graphs.precision import Precision
from worker.model_tools.split.protocol import check_stages
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

_TRIED = [0, 1, 0, 1]  # ids that every vocabulary has


class SplitCausal:
    """Causal language models."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        sizes = read_sizes(read_json(folder.path / CONFIG))
        check_stages(folder, f"{sizes.layers} layers", stages, sizes.layers)
        layers = cut_causal(sizes, stages)
        write_stages(folder.path, target, sizes, Precision(manifest.precision or Precision.FP32), layers)
        return tuple(map(len, layers))

    def try_stages(self, folder: Path) -> None:
        read_all(open_causal_model(folder).new_reader(), [Group([], [_TRIED])], RunContext())

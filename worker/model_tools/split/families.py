"""The part of `split` that depends on the model family: where a model is cut, and how its stages are tried."""

from pathlib import Path
from typing import Protocol

from jobs.errors import SpecError
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.stages import cut_causal, write_stages
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.stages import cut_decoder, write_translation_stages
from worker.model_tools.inspect.stages import num_target_ids
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

# Ids that every vocabulary has
_TEXT = [0, 1, 0, 1]
_SENTENCE = [0, 0]


class SplitFamily(Protocol):
    """The part of `split` that depends on the model family."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        """Write the stages of a model into `target`; how many layers each has. Raises SpecError where the model has too
        few, ModelError where it is damaged."""

    def try_stages(self, folder: Path) -> None:
        """Open every stage as a worker does, and give it a few tokens. Raises what that raises: ModelError where a
        stage cannot be opened, StageDied where its process ended."""


class SplitCausal:
    """Causal language models are cut between two layers."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        sizes = read_sizes(read_json(folder.path / CONFIG))
        _check_stages(folder, f"{sizes.layers} layers", stages, sizes.layers)
        layers = cut_causal(sizes, stages)
        write_stages(folder.path, target, sizes, Precision(manifest.precision or Precision.FP32), layers)
        return tuple(map(len, layers))

    def try_stages(self, folder: Path) -> None:
        read_all(open_causal_model(folder).new_reader(), [Group([], [_TEXT])], RunContext())


class SplitSeq2Seq:
    """Translation models: the encoder is the first stage, the decoder is cut between two layers."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        config = read_json(folder.path / CONFIG)
        network = read_network(config)
        has = f"an encoder and {network.decoder_layers} decoder layers"
        _check_stages(folder, has, stages, network.decoder_layers + 1)
        layers = cut_decoder(config, num_target_ids(config, manifest), stages)
        write_translation_stages(folder.path, target, config, Precision(manifest.precision or Precision.FP32), layers)
        return network.encoder_layers, *map(len, layers)

    def try_stages(self, folder: Path) -> None:
        model = open_seq2seq_model(folder)
        list(model.new_decoder().decode([_SENTENCE], model.generation, RunContext(), batch_size=1))


def _check_stages(folder: ModelFolder, has: str, stages: int, most: int) -> None:
    """Raise SpecError where a model is to have more stages than it can; `has`: what it is cut between."""
    if stages > most:
        raise SpecError(f"{folder.name} has {has}, so it can be split into {most} stages at most")

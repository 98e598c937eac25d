"""The translation part of `split`: the encoder is the first stage, the decoder is cut between two layers."""

from pathlib import Path

from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.marian.stages import cut_marian, write_marian_stages
from worker.graphs.marian.weights import MarianSizes
from worker.graphs.precision import Precision
from worker.model_tools.inspect.stages import num_target_ids
from worker.model_tools.split.protocol import check_stages
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

_TRIED = [0, 0]  # ids that every vocabulary has


class SplitSeq2Seq:
    """Translation models."""

    def cut(self, folder: ModelFolder, manifest: Manifest, target: Path, stages: int) -> tuple[int, ...]:
        config = read_json(folder.path / CONFIG)
        sizes = MarianSizes.read(config)
        has = f"an encoder and {sizes.decoder_layers} decoder layers"
        check_stages(folder, has, stages, sizes.decoder_layers + 1)
        layers = cut_marian(config, num_target_ids(config, manifest), stages)
        write_marian_stages(folder.path, target, config, Precision(manifest.precision or Precision.FP32), layers)
        return sizes.encoder_layers, *map(len, layers)

    def try_stages(self, folder: Path) -> None:
        model = open_seq2seq_model(folder)
        list(model.new_decoder().decode([_TRIED], model.generation, RunContext(), batch_size=1))

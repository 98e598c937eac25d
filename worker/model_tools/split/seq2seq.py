"""The translation part of `split`: the encoder is the first stage, the decoder is cut between two layers."""

from pathlib import Path

from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.stages import cut_decoder, write_translation_stages
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
        network = read_network(config)
        has = f"an encoder and {network.decoder_layers} decoder layers"
        check_stages(folder, has, stages, network.decoder_layers + 1)
        layers = cut_decoder(config, num_target_ids(config, manifest), stages)
        write_translation_stages(folder.path, target, config, Precision(manifest.precision or Precision.FP32), layers)
        return network.encoder_layers, *map(len, layers)

    def try_stages(self, folder: Path) -> None:
        model = open_seq2seq_model(folder)
        list(model.new_decoder().decode([_TRIED], model.generation, RunContext(), batch_size=1))

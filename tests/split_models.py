"""Tiny models that are split into stages."""

from dataclasses import replace
from pathlib import Path

from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.stages import cut_causal, write_stages
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.stages import cut_decoder, write_translation_stages
from worker.model_tools.inspect.stages import num_target_ids
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest, Split, StagePlace
from worker.models.model_kind import ModelKind


def split_kv_model(
    whole: Path, folder: Path, stages: int, *, separate: bool = False, memory_limit: int | None = None
) -> Path:
    """Write the stages of a native model, with the other files that an engine opens."""
    folder.mkdir(parents=True)
    manifest, config = Manifest.read(whole), read_json(whole / "config.json")
    precision = Precision(manifest.precision or Precision.FP32)
    if ModelKind.of_architecture(manifest.architecture) is ModelKind.TRANSLATION:
        layers = cut_decoder(config, num_target_ids(config, manifest), stages)
        write_translation_stages(whole, folder, config, precision, layers)
        counts = [read_network(config).encoder_layers, *map(len, layers)]
    else:
        layers = cut_causal(read_sizes(config), stages)
        write_stages(whole, folder, read_sizes(config), precision, layers)
        counts = [*map(len, layers)]
    for file in whole.iterdir():
        if file.suffix in (".json", ".spm"):
            (folder / file.name).write_bytes(file.read_bytes())
    places = tuple(StagePlace(count, "cpu") for count in counts)
    split = Split(whole.name, places, separate, memory_limit)
    (folder / MANIFEST).write_bytes(replace(manifest, split=split).to_bytes())
    return folder

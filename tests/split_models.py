"""Tiny causal models that are split into stages."""

from dataclasses import replace
from pathlib import Path

from worker.graphs.causal_stages import cut_layers, write_stages
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.precision import Precision
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest, Split, StagePlace


def split_kv_model(
    whole: Path, folder: Path, stages: int, *, separate: bool = False, memory_limit: int | None = None
) -> Path:
    """Write the stages of a native model, with the other files that an engine opens."""
    folder.mkdir(parents=True)
    manifest, sizes = Manifest.read(whole), CausalSizes.read(read_json(whole / "config.json"))
    layers = cut_layers(sizes, stages)
    write_stages(whole, folder, sizes, Precision(manifest.precision), layers)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((whole / name).read_bytes())
    places = tuple(StagePlace(len(some), "cpu") for some in layers)
    split = Split(whole.name, places, separate, memory_limit)
    (folder / MANIFEST).write_bytes(replace(manifest, split=split).to_bytes())
    return folder

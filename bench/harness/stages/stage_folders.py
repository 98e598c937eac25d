"""The models that `bench.stages` measures: one in one piece, and what it is split into.

Knows: folders, manifests. Does not know: how a model is run.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from bench.checkpoints.folders import made_once
from worker.models.manifest import MANIFEST, Manifest


def split_once(whole: Path, stages: int) -> Path:
    """The model in so many stages, beside the whole one."""
    folder = whole.with_name(f"{whole.name}-{stages}-stages")
    return made_once(folder, lambda out: ["bench.split_model", str(whole), str(out), str(stages)])


def separate(split: Path, memory_limit: int | None = None) -> Path:
    """The same stages, each in a process of its own that may allocate so many bytes: the same files, linked, under
    another manifest."""
    folder = split.with_name(f"{split.name}-separate")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in split.iterdir():
        if file.name != MANIFEST:
            os.link(file, folder / file.name)
    manifest = Manifest.read(split)
    assert manifest.split is not None
    placed = replace(manifest.split, separate=True, memory_limit=memory_limit)
    (folder / MANIFEST).write_bytes(replace(manifest, split=placed).to_bytes())
    return folder

"""
What a model is, from its files alone: for lists, which must not open graphs.

Knows: the manifest, config.json, names and sizes of files. Does not know: what is inside a graph. Standard library
alone.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

from jobs.errors import KvjobsError
from jobs.tasks.kinds import KINDS
from jobs.worker_port import InstalledModel, ModelSizes
from worker.models.contents.present_files import kind_of, layout_by_names
from worker.models.contents.required_files import check_files
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json_or_empty
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.seq2seq_config import Seq2SeqConfig
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import is_bundled


def summarize(folder: ModelFolder) -> InstalledModel:
    """The model in a folder. What cannot be read is None, and `problem` says why."""
    fields: dict[str, Any] = {}
    problem = None
    try:
        kind = kind_of(folder)
        fields |= {"kind": kind.value, "tasks": tuple(task.name for task in KINDS.values() if kind in task.models)}
        if manifest := read_manifest(folder):
            fields |= {
                "architecture": manifest.architecture,
                "precision": manifest.precision,
                "head": manifest.head,
                "num_target_ids": None if manifest.head_ids is None else len(manifest.head_ids),
                "source": manifest.source,
                "source_revision": manifest.revision,
                "compared_with": manifest.checkpoint,
                "departures": manifest.departures,
                "drift": manifest.drift.clause() if manifest.drift else None,
                "is_far": manifest.drift is not None and manifest.drift.is_large,
            }
        fields["layout"] = layout_by_names(folder)
        fields["sizes"] = sizes_of(folder.path, kind)
        check_files(folder)
    except KvjobsError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{error.filename or folder.path} cannot be read: {error.strerror}"
    return InstalledModel(
        name=folder.name,
        path=folder.path,
        problem=problem,
        is_bundled=is_bundled(folder.path),
        num_bytes=num_bytes(folder),
        **fields,
    )


def num_bytes(folder: ModelFolder) -> int:
    """Size of all files in the folder; a link that leads nowhere has none."""
    total = 0
    for directory, _, names in os.walk(folder.path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(directory, name))
    return total


def sizes_of(path: Path, kind: ModelKind) -> ModelSizes:
    """The sizes that the configuration names; layers and heads are the decoder's, which has the cache."""
    if kind is not ModelKind.TRANSLATION:
        return _causal_sizes(CausalConfig.read(path))
    config = Seq2SeqConfig.of(read_json_or_empty(path / CONFIG))
    return ModelSizes(
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        num_query_heads=config.num_heads,
        head_size=config.head_size,
        width=config.width,
        vocab_size=config.vocab_size,
        max_positions=config.max_positions,
    )


def _causal_sizes(config: CausalConfig) -> ModelSizes:
    heads, width = config.num_attention_heads, config.hidden_size
    return ModelSizes(
        num_layers=config.num_hidden_layers,
        num_heads=config.num_key_value_heads or heads,
        num_query_heads=heads,
        head_size=config.head_dim or (width // heads if width and heads else None),
        width=width,
        vocab_size=config.vocab_size,
        max_positions=config.max_position_embeddings,
    )

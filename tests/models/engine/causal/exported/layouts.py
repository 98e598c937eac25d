"""The layouts of causal graphs that other exporters make."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.causal_exports import Export
from worker.engine.causal.exported.model import ExportedCausal

LAYOUTS = {
    "optimum": Export(),
    "optimum, all heads": Export(kv_heads=4),
    "optimum, no past": Export(has_past=False),
    "optimum, no positions": Export(positions="past"),
    "reads its padding": Export(positions="left"),
    "genai": Export(attention="grouped", leaves_head_size_open=True),
    "genai, all heads": Export(attention="grouped", kv_heads=4),
    "genai, no past": Export(attention="grouped", has_past=False),
    "transformers.js": Export(num_logits=True),
    "underscores": Export(names=("past_{part}_{layer}", "present_{part}_{layer}")),
    "present_key_values": Export(names=("past_key_values.{layer}.{part}", "present_key_values.{layer}.{part}")),
    "optimum, float16": Export(dtype=np.float16),
    "genai, float16": Export(attention="grouped", dtype=np.float16),
    "no past, float16": Export(has_past=False, dtype=np.float16),
}
MODELS: dict[str, ExportedCausal] = {}  # opened so far


def open_export(folder: Path, export: Export, **config: Any) -> ExportedCausal:
    return ExportedCausal.open(export.write(folder, **config))

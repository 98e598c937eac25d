"""Opening a causal language model, whether its graphs are native or exported."""

from collections.abc import Sequence
from pathlib import Path

from worker.engine.causal.exported.model import ExportedCausal
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.models.manifest import has_native_graphs


def open_causal_model(
    folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)
) -> CausalModel:
    """Open the model in `folder`; raise ModelError now, not at the first document."""
    if has_native_graphs(folder):
        return NativeCausal.open(folder, threads=threads, providers=providers)
    return ExportedCausal.open(folder, threads=threads, providers=providers)

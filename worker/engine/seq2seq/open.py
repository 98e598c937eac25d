"""Opening a translation model, whether its graphs are native or exported."""

from collections.abc import Sequence
from pathlib import Path

from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.models.manifest import has_native_graphs


def open_seq2seq_model(
    folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)
) -> Seq2SeqModel:
    """Open the model in `folder`; raise ModelError now, not at the first document."""
    if has_native_graphs(folder):
        return NativeSeq2Seq.open(folder, threads=threads, providers=providers)
    return ExportedSeq2Seq.open(folder, threads=threads, providers=providers)

"""One model in memory: its files as they were when it was opened, its graphs, its tokenizer.

Knows: which folder a spec names, which kind of model is in it. Does not know: lanes, how an engine works.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ModelError
from jobs.spec import JobSpec
from worker.engine.causal.open import Tokenizer, open_causal_model, open_causal_tokenizer
from worker.engine.causal.protocol import CausalModel
from worker.engine.cross_encoder.model import CrossEncoder
from worker.engine.cross_encoder.pair_reader import PairReader, open_pair_reader
from worker.engine.runtime.device import CPU_PROVIDER, Device, Provider
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.models.contents.present_files import kind_of
from worker.models.contents.required_files import check_files
from worker.models.half_precision import needs_half, runs_on_gpu
from worker.models.model_folder import FileStamp, ModelFolder, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """A model's files as they were when it was opened.

    Weights are mapped into memory, so what another program writes into the file changes the model that is running.
    """

    folder: ModelFolder
    stamps: Mapping[str, FileStamp]

    def changed(self) -> list[str]:
        """The names of the files that were written to, replaced, added or removed since."""
        now = self.folder.stamps()
        return sorted(name for name in {*now, *self.stamps} if now.get(name) != self.stamps.get(name))


@dataclass(frozen=True, slots=True)
class LoadedTranslation:
    """A translation model, ready to run; every lane shares it."""

    name: str
    files: OpenedFiles
    model: Seq2SeqModel
    tokenizer: Seq2SeqTokenizer
    load_s: float

    @property
    def is_running(self) -> bool:
        """False once it has to be loaded again."""
        return self.model.is_running


@dataclass(frozen=True, slots=True)
class LoadedCausal:
    """A causal language model, ready to run; every lane shares it."""

    name: str
    files: OpenedFiles
    model: CausalModel
    tokenizer: Tokenizer
    load_s: float

    @property
    def is_running(self) -> bool:
        """False once it has to be loaded again."""
        return self.model.is_running


@dataclass(frozen=True, slots=True)
class LoadedCrossEncoder:
    """A cross-encoder, ready to run; every lane shares it."""

    name: str
    files: OpenedFiles
    model: CrossEncoder
    reader: PairReader
    load_s: float

    @property
    def is_running(self) -> bool:
        """Always true: it runs in this process."""
        return True


LoadedModel = LoadedTranslation | LoadedCausal | LoadedCrossEncoder


def load_model(
    spec: JobSpec, models_dir: Path, threads: int, providers: Sequence[Provider], *, context: int = 0
) -> LoadedModel:
    """Load the model of a job. Raises NotFoundError where there is none of that name, ModelError where its files are
    damaged or not those that the job was submitted with. `context`: see `open_causal_model`."""
    started = time.perf_counter()
    folder = find_model(spec.model, models_dir)
    files = OpenedFiles(folder, folder.stamps())  # before any file is read, so that a change during the load shows
    check_files(folder)
    if folder.revision() != spec.model_revision:
        raise ModelError(
            f"the files of model {spec.model} have changed since the job was submitted; "
            "restore them, or cancel the job and submit again"
        )
    providers = _supported(folder, providers)
    kind = kind_of(folder)
    if kind is ModelKind.CROSS_ENCODER:
        cross_encoder = CrossEncoder.open(folder.path, threads=threads, providers=providers)
        reader = open_pair_reader(folder.path, cross_encoder)
        return LoadedCrossEncoder(spec.model, files, cross_encoder, reader, time.perf_counter() - started)
    if kind is ModelKind.CAUSAL:
        causal = open_causal_model(folder.path, threads=threads, providers=providers, context=context)
        tokenizer = open_causal_tokenizer(folder.path, causal)
        return LoadedCausal(spec.model, files, causal, tokenizer, time.perf_counter() - started)
    seq2seq = open_seq2seq_model(folder.path, threads=threads, providers=providers)
    texts = open_translation_tokenizer(folder.path)
    return LoadedTranslation(spec.model, files, seq2seq, texts, time.perf_counter() - started)


def _supported(folder: ModelFolder, providers: Sequence[Provider]) -> Sequence[Provider]:
    """The providers, or the CPU's where a GPU cannot run the model: every worker takes jobs of the queue cpu."""
    manifest = read_manifest(folder)
    if Device.of(providers).kind == "cpu" or manifest is None or runs_on_gpu(manifest):
        return providers
    log.warning("%s; this worker runs it on its CPU", needs_half(folder.name, manifest))
    return (CPU_PROVIDER,)

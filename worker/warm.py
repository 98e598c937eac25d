"""The models of this process, opened once and kept warm.

Knows: which folder a spec names. Does not know: queues, tables, how an engine works.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ModelError
from jobs.spec import JobSpec
from worker.engine.causal.open import open_language_model
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.session import PROVIDER, Device, Provider
from worker.engine.seq2seq.open import open_translation_model
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.models.half_precision import needs_half, runs_on_gpu
from worker.models.model_kind import ModelKind
from worker.models.registry import FileStamp, ModelFolder, check_files, find_model, kind_of, read_manifest
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.marian_tokenizer import MarianTokenizer

log = logging.getLogger(__name__)

MAX_WARM = 4  # models; the one that was used longest ago goes first


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """A model's files as they were when it was opened.

    Weights are mapped into memory: what another program writes into the file changes the model that is running.
    """

    folder: ModelFolder
    stamps: Mapping[str, FileStamp]

    def changed(self) -> list[str]:
        """The names of the files that were written to, replaced, added or removed since."""
        now = self.folder.stamps()
        return sorted(name for name in {*now, *self.stamps} if now.get(name) != self.stamps.get(name))


@dataclass(frozen=True, slots=True)
class WarmTranslation:
    """A translation model, ready to run; every lane shares it."""

    name: str
    files: OpenedFiles
    model: Seq2SeqModel
    tokenizer: MarianTokenizer
    load_s: float


@dataclass(frozen=True, slots=True)
class WarmCausal:
    """A causal language model, ready to run; every lane shares it."""

    name: str
    files: OpenedFiles
    model: CausalModel
    tokenizer: CausalTokenizer
    load_s: float


WarmModel = WarmTranslation | WarmCausal


class WarmModels:
    """Opens each model once, at its first use, and not at start: a worker cannot know which it will meet."""

    def __init__(self, models_dir: Path, threads: int, providers: Sequence[Provider] = (PROVIDER,)) -> None:
        self._models_dir = models_dir
        self._threads = threads
        self._providers = providers
        self._models: OrderedDict[str, WarmModel] = OrderedDict()  # by revision
        self._lock = threading.Lock()
        self._warm: dict[str, WarmModel] = {}  # as it stands; replaced, never changed: to be read without the lock

    def open(self, spec: JobSpec) -> WarmModel:
        """The model of a job. Raises ModelError where the files are not those that the job was submitted with.

        Files that have changed since the model was opened are read again: they may still say the same.
        """
        with self._lock:  # also for the loading: two lanes must not load the same gigabyte twice
            warm = self._models.get(spec.model_revision)
            if warm is not None and (changed := warm.files.changed()):
                log.warning("model %s: %s changed on the disk; opening it again", warm.name, ", ".join(changed))
                del self._models[spec.model_revision]
                self._warm = dict(self._models)
            if spec.model_revision not in self._models:
                self._models[spec.model_revision] = self._load(spec)
                while len(self._models) > MAX_WARM:
                    self._models.popitem(last=False)
                self._warm = dict(self._models)
            self._models.move_to_end(spec.model_revision)
            return self._models[spec.model_revision]

    def revisions(self) -> tuple[str, ...]:
        """What is warm."""
        return tuple(self._warm)

    def load_times(self) -> dict[str, float]:
        """Seconds that each warm model took to load, by name."""
        return {model.name: round(model.load_s, 3) for model in self._warm.values()}

    def _load(self, spec: JobSpec) -> WarmModel:
        started = time.perf_counter()
        folder = find_model(spec.model, self._models_dir)
        files = OpenedFiles(folder, folder.stamps())  # before anything is read: what changes from now on shows
        check_files(folder)
        if folder.revision() != spec.model_revision:
            raise ModelError(
                f"the files of model {spec.model} have changed since the job was submitted; "
                "restore them, or cancel the job and submit again"
            )
        providers = self._providers_for(folder)
        if kind_of(folder) is ModelKind.CAUSAL:
            causal = open_language_model(folder.path, threads=self._threads, providers=providers)
            tokenizer = CausalTokenizer.open(folder.path)
            return WarmCausal(spec.model, files, causal, tokenizer, time.perf_counter() - started)
        seq2seq = open_translation_model(folder.path, threads=self._threads, providers=providers)
        marian = MarianTokenizer.open(folder.path)
        return WarmTranslation(spec.model, files, seq2seq, marian, time.perf_counter() - started)

    def _providers_for(self, folder: ModelFolder) -> Sequence[Provider]:
        """A job of the queue cpu is for any worker. What a GPU cannot run, this machine's CPU can."""
        manifest = read_manifest(folder)
        if Device.of(self._providers).kind == "cpu" or manifest is None or runs_on_gpu(manifest):
            return self._providers
        log.warning("%s; this worker runs it on its CPU", needs_half(folder.name, manifest.precision))
        return (PROVIDER,)

"""The models of this process, opened once and kept warm; and the lanes, each with KV buffers of its own.

Knows: which folder a spec names. Does not know: queues, tables, how an engine works.
"""

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from jobs.errors import ModelError
from jobs.spec import JobSpec
from jobs.store.worker_registry import Warmth
from worker.engine.causal.open import open_language_model
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.session import PROVIDER, Device, Provider
from worker.engine.seq2seq.open import Network, open_translation_model
from worker.engine.tasks.pair_scoring import PairScorer
from worker.engine.tasks.reranking import Reranker
from worker.engine.tasks.scoring import Scorer
from worker.engine.tasks.translation import Translator
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
    network: Network
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
Engine = Translator | Scorer | PairScorer | Reranker
Made = TypeVar("Made", Translator, Scorer, PairScorer, Reranker)


class Buffers(Protocol):
    """What a lane holds for an engine."""

    @property
    def num_bytes(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    @property
    def reuses(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Opened:
    """An engine, and the model that it was made of."""

    model: WarmModel
    engine: Engine


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
            model = open_language_model(folder.path, threads=self._threads, providers=providers)
            tokenizer = CausalTokenizer.open(folder.path)
            return WarmCausal(spec.model, files, model, tokenizer, time.perf_counter() - started)
        network = open_translation_model(folder.path, threads=self._threads, providers=providers)
        marian = MarianTokenizer.open(folder.path)
        return WarmTranslation(spec.model, files, network, marian, time.perf_counter() - started)

    def _providers_for(self, folder: ModelFolder) -> Sequence[Provider]:
        """A job of the queue cpu is for any worker. What a GPU cannot run, this machine's CPU can."""
        manifest = read_manifest(folder)
        if Device.of(self._providers).kind == "cpu" or manifest is None or runs_on_gpu(manifest):
            return self._providers
        log.warning("%s; this worker runs it on its CPU", needs_half(folder.name, manifest.precision))
        return (PROVIDER,)


class Lane:
    """One thread's share: an engine, with its buffers, for each model and task that it met."""

    def __init__(self, number: int, models: WarmModels) -> None:
        self.number = number
        self._models = models
        self._engines: OrderedDict[tuple[str, type[Engine]], _Opened] = OrderedDict()  # by revision and kind
        self._used: WarmModel | None = None  # what was opened last

    def open(self, spec: JobSpec) -> None:
        """Have a job's model ready. Raises NotFoundError and ModelError where it cannot be."""
        self._used = self._models.open(spec)

    def changed_files(self) -> list[str]:
        """The names of those files of the model that was used last which have changed since it was opened. Whatever it
        has computed since its last use began may come from other weights than the job's."""
        return self._used.files.changed() if self._used else []

    def translator(self, spec: JobSpec) -> Translator:
        """The warm engine of a job that translates."""
        model = self._translation(spec)
        return self._engine(spec, model, Translator, lambda: Translator(model.network, model.tokenizer))

    def forced_scorer(self, spec: JobSpec) -> PairScorer:
        """The warm engine of a job that scores pairs."""
        model = self._translation(spec)
        return self._engine(spec, model, PairScorer, lambda: PairScorer(model.network, model.tokenizer))

    def scorer(self, spec: JobSpec) -> Scorer:
        """The warm engine of a job that scores texts."""
        model = self._causal(spec)
        return self._engine(spec, model, Scorer, lambda: Scorer(model.model, model.tokenizer))

    def reranker(self, spec: JobSpec) -> Reranker:
        """The warm engine of a job that reranks."""
        model = self._causal(spec)
        return self._engine(spec, model, Reranker, lambda: Reranker(model.model, model.tokenizer))

    @property
    def warm(self) -> tuple[str, ...]:
        """The revisions of the models that any lane of this process has used lately."""
        return self._models.revisions()

    @property
    def buffers(self) -> list[Buffers]:
        """Of every engine."""
        return [_buffers(opened.engine) for opened in list(self._engines.values())]

    def _engine(self, spec: JobSpec, model: WarmModel, kind: type[Made], make: Callable[[], Made]) -> Made:
        key = (spec.model_revision, kind)
        found = self._engines.get(key)
        engine = found.engine if found and found.model is model else None  # the files may have been read again
        if not isinstance(engine, kind):
            engine = make()
            self._engines[key] = _Opened(model, engine)
            while len(self._engines) > MAX_WARM:
                self._engines.popitem(last=False)
        self._engines.move_to_end(key)
        return engine

    def _translation(self, spec: JobSpec) -> WarmTranslation:
        self._used = model = self._models.open(spec)
        if not isinstance(model, WarmTranslation):
            raise ModelError(f"{spec.model} is no translation model, and the job was made for one: cancel the job")
        return model

    def _causal(self, spec: JobSpec) -> WarmCausal:
        self._used = model = self._models.open(spec)
        if not isinstance(model, WarmCausal):
            raise ModelError(f"{spec.model} is no causal language model, and the job was made for one: cancel the job")
        return model


def warmth(models: WarmModels, lanes: list[Lane]) -> Warmth:
    """What the heartbeat tells about this process."""
    buffers = [one for lane in lanes for one in lane.buffers]
    return Warmth(
        models=json.dumps(models.load_times()),
        kv_bytes=sum(one.num_bytes for one in buffers),
        buffer_allocations=sum(one.allocations for one in buffers),
        buffer_reuses=sum(one.reuses for one in buffers),
    )


def _buffers(engine: Engine) -> Buffers:
    match engine:
        case Translator():
            return engine.decoder
        case PairScorer():
            return engine
        case Scorer() | Reranker():
            return engine.reader

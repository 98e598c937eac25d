"""The models of this process, opened once and kept warm; and the lanes, each with KV buffers of its own.

Knows: which folder a spec names. Does not know: queues, tables, how an engine works.
"""

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ModelError
from jobs.spec import JobSpec
from jobs.store.workers import Warmth
from worker.engine.network import Network, open_network
from worker.engine.session import PROVIDER, Device, Provider
from worker.engine.translation import Translator
from worker.models.halves import needs_half, runs_on_gpu
from worker.models.registry import ModelFolder, check_files, find_model, read_manifest
from worker.text.marian import MarianTokenizer

log = logging.getLogger(__name__)

MAX_WARM = 4  # models; the one that was used longest ago goes first


@dataclass(frozen=True, slots=True)
class WarmModel:
    """A model, ready to run; every lane shares it."""

    name: str
    network: Network
    tokenizer: MarianTokenizer
    load_s: float


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
        """The model of a job. Raises ModelError where the files are not those that the job was submitted with."""
        with self._lock:  # also for the loading: two lanes must not load the same gigabyte twice
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
        check_files(folder)
        if folder.revision() != spec.model_revision:
            raise ModelError(
                f"the files of model {spec.model} have changed since the job was submitted; "
                "restore them, or cancel the job and submit again"
            )
        network = open_network(folder.path, threads=self._threads, providers=self._providers_for(folder))
        tokenizer = MarianTokenizer.open(folder.path)
        return WarmModel(spec.model, network, tokenizer, time.perf_counter() - started)

    def _providers_for(self, folder: ModelFolder) -> Sequence[Provider]:
        """A job of the queue cpu is for any worker. What a GPU cannot run, this machine's CPU can."""
        manifest = read_manifest(folder)
        if Device.of(self._providers).kind == "cpu" or manifest is None or runs_on_gpu(manifest):
            return self._providers
        log.warning("%s; this worker runs it on its CPU", needs_half(folder.name, manifest.precision))
        return (PROVIDER,)


class Lane:
    """One thread's share: a translator, with its buffers, for each model that it met."""

    def __init__(self, number: int, models: WarmModels) -> None:
        self.number = number
        self._models = models
        self._translators: OrderedDict[str, Translator] = OrderedDict()

    def open(self, spec: JobSpec) -> None:
        """Have a job's model ready. Raises NotFoundError and ModelError where it cannot be."""
        self._models.open(spec)

    def translator(self, spec: JobSpec) -> Translator:
        """The warm translator of a job's model."""
        model = self._models.open(spec)
        if spec.model_revision not in self._translators:
            self._translators[spec.model_revision] = Translator(model.network, model.tokenizer)
            while len(self._translators) > MAX_WARM:
                self._translators.popitem(last=False)
        self._translators.move_to_end(spec.model_revision)
        return self._translators[spec.model_revision]

    @property
    def warm(self) -> tuple[str, ...]:
        """The revisions of the models that any lane of this process has used lately."""
        return self._models.revisions()

    @property
    def translators(self) -> list[Translator]:
        return list(self._translators.values())


def warmth(models: WarmModels, lanes: list[Lane]) -> Warmth:
    """What the heartbeat tells about this process."""
    decoders = [translator.decoder for lane in lanes for translator in lane.translators]
    return Warmth(
        models=json.dumps(models.load_times()),
        kv_bytes=sum(decoder.num_bytes for decoder in decoders),
        buffer_allocations=sum(decoder.allocations for decoder in decoders),
        buffer_reuses=sum(decoder.reuses for decoder in decoders),
    )

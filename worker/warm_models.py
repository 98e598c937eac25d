"""The models that a worker process keeps open between jobs, shared by its lanes."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.spec import JobSpec
from jobs.system.process import available_cores
from worker.engine.runtime.device import CPU_PROVIDER, Provider, lanes_of, providers
from worker.loaded_model import LoadedModel, load_model

log = logging.getLogger(__name__)

MAX_WARM = 4  # models, unless the settings say how many


class WarmModels:
    """Loads each model once, at the first job that names it: at its start a worker cannot know which it will need."""

    def __init__(
        self,
        models_dir: Path,
        threads: int,
        providers: Sequence[Provider] = (CPU_PROVIDER,),
        *,
        context: int = 0,
        limit: int = MAX_WARM,
    ) -> None:
        """`context`: the most positions that a GGUF file gets; 0: its own limit. `limit`: models kept open; the least
        recently used one is closed first."""
        self.limit = limit
        self._models_dir = models_dir
        self._threads = threads
        self._providers = providers
        self._context = context
        self._models: OrderedDict[str, LoadedModel] = OrderedDict()  # by revision
        self._lock = threading.Lock()
        self._snapshot: dict[str, LoadedModel] = {}  # replaced, never changed: read without the lock

    @classmethod
    def for_worker(cls, arguments: WorkerArguments, *, context: int = 0) -> "WarmModels":
        """The models of a worker, or of one of its sandboxes: with the same number of session threads, as a batch must
        give the same results in both, bit for bit."""
        # On two cores, two lanes with one session thread each beat one lane with two by 1.4 to 1: lanes never wait for
        # each other at the end of a matrix product.
        threads = max(1, available_cores() // lanes_of(arguments.device, arguments.settings.lanes))
        settings = arguments.settings
        device = providers(arguments.device)
        return cls(settings.models_dir, threads, device, context=context, limit=settings.warm_models)

    def open(self, spec: JobSpec) -> LoadedModel:
        """The model of a job. Raises what `load_model` raises.

        Where files have changed since the model was loaded, it is loaded again: their content may be the same.
        """
        with self._lock:  # held during the load too: two lanes must not load the same gigabyte twice
            warm = self._models.get(spec.model_revision)
            if warm is not None and (changed := warm.files.changed()):
                log.warning("model %s: %s changed on the disk; loading it again", warm.name, ", ".join(changed))
                del self._models[spec.model_revision]
                self._snapshot = dict(self._models)
            if warm is not None and not warm.is_running:
                log.warning("model %s: a process of it has ended; loading it again", warm.name)
                self._models.pop(spec.model_revision, None)
            if spec.model_revision not in self._models:
                self._models[spec.model_revision] = load_model(
                    spec, self._models_dir, self._threads, self._providers, context=self._context
                )
                while len(self._models) > self.limit:
                    self._models.popitem(last=False)
                self._snapshot = dict(self._models)
            self._models.move_to_end(spec.model_revision)
            return self._models[spec.model_revision]

    def load_times(self) -> dict[str, tuple[str, float]]:
        """The name of each open model, and the seconds that it took to load, by revision."""
        return {revision: (model.name, model.load_s) for revision, model in self._snapshot.items()}

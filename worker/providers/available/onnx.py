"""The provider onnx: kvjobs' own graphs, and exports, in onnxruntime in the worker's process."""

from collections.abc import Mapping
from typing import ClassVar, Self

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.providers import ONNX
from worker.providers.local_engines import LocalEngines
from worker.providers.protocol import Provider, ProviderJob, WarmModel
from worker.warm_models import WarmModels


class OnnxProvider:
    """The models of a process, which its lanes share."""

    name: ClassVar[str] = ONNX
    is_local: ClassVar[bool] = True

    def __init__(self, models: WarmModels) -> None:
        self._models = models

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        return cls(WarmModels.for_worker(arguments))

    def why_not(self, job: ProviderJob) -> str | None:
        """What it can do depends on the model's files, which `worker.model_tools.admission` looks at."""
        if job.choice.model is not None:
            return f"it runs the job's own model, so that --model names it, not {job.choice}"
        return None

    def new_lane(self) -> LocalEngines:
        return LocalEngines(self._models)

    def warm(self) -> Mapping[str, WarmModel]:
        return {revision: WarmModel(name, load_s) for revision, (name, load_s) in self._models.load_times().items()}


PROVIDER: type[Provider] = OnnxProvider

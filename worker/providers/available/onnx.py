"""The provider onnx: kvjobs' own graphs, and exports, in onnxruntime in the worker's process."""

from typing import ClassVar, Self

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.providers import ONNX
from worker.providers.local_engines import LocalProvider
from worker.providers.protocol import Provider, ProviderJob
from worker.warm_models import WarmModels


class OnnxProvider(LocalProvider):
    """Graphs, native and exported, which the lanes of a process share."""

    name: ClassVar[str] = ONNX

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        return cls(WarmModels.for_worker(arguments))

    def why_not(self, job: ProviderJob) -> str | None:
        """As `Provider.why_not`. The model's files also decide: `worker.model_tools.admission` checks them."""
        if job.choice.model is not None:
            return f"it runs the job's own model, so that --model names it, not {job.choice}"
        return None


PROVIDER: type[Provider] = OnnxProvider

"""The provider llamacpp: GGUF files as they are, which llama.cpp runs in the worker's process."""

from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Self

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.providers import LLAMACPP
from jobs.system.requirements import install_command, is_installed
from jobs.tasks.task import Task
from jobs.worker_port import ProviderCheck
from worker.engine.causal.open import LIBRARY, PACKAGE
from worker.models.export_advice import ADD
from worker.models.manifest import is_gguf
from worker.models.registry import find_model
from worker.providers.local_engines import LocalProvider
from worker.providers.protocol import Provider, ProviderJob
from worker.warm_models import WarmModels


class LlamaCppProvider(LocalProvider):
    """GGUF files, which the lanes of a process share."""

    name: ClassVar[str] = LLAMACPP

    def __init__(self, models: WarmModels, models_dir: Path) -> None:
        super().__init__(models)
        self._models_dir = models_dir

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        settings = arguments.settings
        return cls(WarmModels.for_worker(arguments, context=settings.llamacpp_context), settings.models_dir)

    def why_not(self, job: ProviderJob) -> str | None:
        """As `Provider.why_not`; also raises NotFoundError where there is no such model. What else the files allow,
        `worker.model_tools.admission` checks."""
        if job.spec.task is Task.TRANSLATE:
            can = "which score, rerank and continue prompts"
            return f"llama.cpp runs language models here, {can}; translation needs another provider"
        folder = find_model(job.model, self._models_dir)
        if not is_gguf(folder.path):
            return (
                f"it runs GGUF files, and {folder.name} is none: `{ADD} FILE.gguf --keep-gguf` makes a model of one, "
                f"which {LLAMACPP}:NAME names"
            )
        return None

    def check(self) -> ProviderCheck:
        """Whether llama.cpp is installed: see `worker.providers.registry`."""
        if not is_installed(LIBRARY):
            return ProviderCheck(name=LLAMACPP, found=f"{PACKAGE} is not installed", mend=install_command(PACKAGE))
        return ProviderCheck(name=LLAMACPP, found=f"{PACKAGE} {version(PACKAGE)}")


PROVIDER: type[Provider] = LlamaCppProvider

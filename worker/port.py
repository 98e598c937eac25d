"""The functions of this package that `jobs` calls: the implementation of `jobs.worker_port.WorkerPort`.

Each function imports what it needs when it is called: `kvjobs doctor` must not load numpy or onnxruntime.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from jobs.corpus.corpus import Corpus
from jobs.providers import ProviderOrder
from jobs.routing.plan import PlannedRoute
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.submission.dry_run import DryRun
from jobs.submission.progress import OnProgress
from jobs.tasks.kinds import KINDS, Options
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.worker_port import InstalledModel, KernelsCheck, ProviderCheck, WorkerPort


class Port:
    """The functions of `WorkerPort`, which describes them."""

    def admit(
        self,
        task: Task,
        name: str | None,
        options: Options,
        settings: Settings,
        order: ProviderOrder | None = None,
        *,
        fallback: bool = True,
    ) -> JobSpec:
        from worker.model_tools.provider_admission import admit_order

        return admit_order(task, name, options, order, settings, fallback=fallback)

    def admit_routes(
        self,
        planned: Sequence[PlannedRoute],
        name: str | None,
        options: TranslateOptions,
        settings: Settings,
        order: ProviderOrder | None = None,
        *,
        fallback: bool = True,
        leave_out: Callable[[str], None] | None = None,
    ) -> JobSpec:
        from worker.model_tools.route_admission import admit_routes

        return admit_routes(planned, name, options, order, settings, fallback=fallback, leave_out=leave_out)

    def advise(self, spec: JobSpec, models_dir: Path, queue: str) -> list[str]:
        from worker.model_tools.admission import advise_job

        return advise_job(spec, models_dir, queue)

    def count_work(
        self,
        corpus: Corpus,
        spec: JobSpec,
        stages: Sequence[Stage],
        models_dir: Path,
        spool: Path,
        on_progress: OnProgress | None = None,
    ) -> DryRun:
        from worker.model_tools.dry_run import count_work

        return count_work(corpus, spec, stages, models_dir, spool, on_progress)

    def tasks_of(self, name: str, models_dir: Path) -> tuple[str, ...]:
        from worker.models.contents.present_files import kind_of
        from worker.models.registry import find_model

        kind = kind_of(find_model(name, models_dir))
        return tuple(task.name for task in KINDS.values() if kind in task.models)

    def installed_models(self, models_dir: Path) -> list[InstalledModel]:
        from worker.models.contents.summary import summarize
        from worker.models.registry import list_models

        return [summarize(folder) for folder in list_models(models_dir)]

    def model_stamp(self, path: Path) -> str:
        from worker.models.model_folder import ModelFolder

        return ModelFolder(path.name, path).stamp()

    def stamp_of_name(self, name: str, models_dir: Path) -> str:
        from worker.models.registry import find_model

        return find_model(name, models_dir).stamp()

    def model_revision(self, path: Path, stamp: str) -> str | None:
        from worker.models.model_folder import known_revision

        return known_revision(path, stamp)

    def check_providers(self, settings: Settings) -> list[ProviderCheck]:
        from worker.providers.registry import check_providers

        return check_providers(settings)

    def check_kernels(self) -> KernelsCheck:
        from worker.kernels.library import INSTALL_AGAIN, NoKernelsError, open_library, try_kernels

        try:
            library = open_library()
        except NoKernelsError as error:
            return KernelsCheck(found=f"none, so small models run more slowly: {error}", mend=error.mend)
        if why := try_kernels():
            return KernelsCheck(found=why, mend=INSTALL_AGAIN)
        return KernelsCheck(found=f"compiled, {library.describe()}")

    def device_for(self, queue: str) -> str:
        from worker.engine.runtime.device import device_for

        return device_for(queue)


PORT: WorkerPort = Port()  # mypy: a signature that differs from the protocol's is an error here

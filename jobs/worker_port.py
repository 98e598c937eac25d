"""How `jobs` calls the package `worker`: the functions that it needs, with their types, and the modules that it starts.

`worker` imports `jobs`, never the reverse, and `kvjobs --help` must not load onnxruntime. So this module, the only one
of `jobs` that names a module of `worker`, imports it when it is first needed. `worker/port.py` implements `WorkerPort`;
mypy compares the two there.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jobs.corpus.corpus import Corpus
    from jobs.providers import ProviderOrder
    from jobs.routing.plan import PlannedRoute
    from jobs.settings import Settings
    from jobs.spec import JobSpec
    from jobs.stage import Stage
    from jobs.submission.dry_run import DryRun
    from jobs.submission.progress import OnProgress
    from jobs.tasks.kinds import Options
    from jobs.tasks.task import Task
    from jobs.tasks.translate import TranslateOptions

PORT = "worker.port:PORT"
EMBEDDED_WORKER = "worker.embedded_worker"  # `python -m` runs it: the parent process of an embedded worker
COMMANDS = {  # module:attribute, by the name of the command
    "worker": "worker.cli.worker.group:worker",
    "models": "worker.cli.models.group:models",
    "bench": "worker.cli.bench.group:bench",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """The sizes in a model's configuration. None: not given there."""

    num_layers: int | None  # L, of the decoder
    num_heads: int | None  # K, of keys and values
    num_query_heads: int | None  # N
    head_size: int | None  # H
    width: int | None  # D
    vocab_size: int | None  # V
    max_positions: int | None  # that it reads at once


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel:
    """A model by name, from its files alone: for `kvjobs doctor` and lists. None: unknown, or it does not apply."""

    name: str
    path: Path
    problem: str | None  # why its files cannot be used; None where they are complete
    is_bundled: bool  # comes with kvjobs
    num_bytes: int  # of all its files
    kind: str | None = None  # translation | causal | cross-encoder
    tasks: tuple[str, ...] = ()  # that it can do
    layout: str | None = None  # kv: graphs that kvjobs built; others: exports
    architecture: str | None = None
    precision: str | None = None
    head: str | None = None  # full | target
    num_target_ids: int | None = None  # that a reduced head keeps
    sizes: ModelSizes | None = None
    source: str | None = None  # what `models add` made it from: repository or folder
    source_revision: str | None = None
    compared_with: str | None = None  # the checkpoint that an export was compared with when it was added
    drift: str | None = None  # of a model in int8 from fp32, as it was measured when it was added; a clause
    is_far: bool = False  # that drift is above the bound
    departures: tuple[str, ...] = ()  # how an export differs from its configuration, a sentence each


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsCheck:
    """Whether the compiled kernels are used, for `kvjobs doctor`."""

    found: str
    mend: str = ""  # what to do about it; empty: they are used, and right


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCheck:
    """Whether a provider is ready, for `kvjobs doctor`."""

    name: str
    found: str  # a sentence: what is there, or what is wrong
    mend: str = ""  # what to do about it; empty: it is ready
    is_warning: bool = False  # it works, but should be changed


class WorkerPort(Protocol):
    """What `jobs` asks of `worker`. Models are folders of `models_dir`, bundled ones, or paths."""

    def admit(
        self,
        task: "Task",
        name: str | None,
        options: "Options",
        settings: "Settings",
        order: "ProviderOrder | None" = None,
        *,
        fallback: bool = True,
    ) -> "JobSpec":
        """Check who can do a task with a model and these options; without a name the bundled model for the task.

        `order` is None where the settings decide. A provider that cannot do the job has the reason in `skipped`;
        without `fallback` the first one must be able to. Raises SpecError where none can, or one does not exist. Where
        onnx alone is asked: NotFoundError where no model has this name, ModelError where its folder cannot be used,
        SpecError where the model is of another kind or cannot follow an option.
        """
        ...

    def admit_routes(
        self,
        planned: "Sequence[PlannedRoute]",
        name: str | None,
        options: "TranslateOptions",
        settings: "Settings",
        order: "ProviderOrder | None" = None,
        *,
        fallback: bool = True,
        leave_out: "Callable[[str], None] | None" = None,
    ) -> "JobSpec":
        """As `admit`, for a job that translates with several models: each is checked for its own part. `name`: of all
        together; None: that of the only route. With `leave_out`, which gets a sentence, a route that cannot be used is
        left out. Raises as `admit` does, and SpecError where onnx may not answer or no route is left."""
        ...

    def advise(self, spec: "JobSpec", models_dir: Path, queue: str) -> list[str]:
        """Warnings about a job's model, a sentence each: slow in this queue, approximate, or exported incompletely.
        Those are of onnx: none where it does not run the job.

        Raises SpecError where the model cannot run on the queue's device, and no other provider can do the job.
        """
        ...

    def count_work(
        self,
        corpus: "Corpus",
        spec: "JobSpec",
        stages: "Sequence[Stage]",
        models_dir: Path,
        spool: Path,
        on_progress: "OnProgress | None" = None,
    ) -> "DryRun":
        """Read a corpus once and count what a job over it would process; `spool` is a folder for temporary files.

        Raises CorpusError where the corpus cannot be read, SpecError where a filter among the `stages` behind it names
        a field that none of its first documents has.
        """
        ...

    def tasks_of(self, name: str, models_dir: Path) -> tuple[str, ...]:
        """The tasks that a model of this name or path can do. Raises NotFoundError, and ModelError where its folder
        holds none."""
        ...

    def installed_models(self, models_dir: Path) -> list[InstalledModel]:
        """Every model that has a name, in the order of names. Looks at files only: no graph is opened."""
        ...

    def model_stamp(self, path: Path) -> str:
        """sha256 over inodes, sizes and times of the files of a model; reads none of them."""
        ...

    def stamp_of_name(self, name: str, models_dir: Path) -> str:
        """`model_stamp` of the model that this name means. Raises NotFoundError where there is none."""
        ...

    def model_revision(self, path: Path, stamp: str) -> str | None:
        """sha256 over the files of a model, which has this stamp; read once, then remembered. None: unreadable."""
        ...

    def check_providers(self, settings: "Settings") -> list[ProviderCheck]:
        """Whether each provider that the settings name is ready, but for onnx. Sends no document; takes seconds."""
        ...

    def check_kernels(self) -> KernelsCheck:
        """Whether the compiled kernels can be used here. Tries them in another process."""
        ...

    def device_for(self, queue: str) -> str:
        """The device that serves a queue: `cpu` or `cuda:0`. Raises SpecError where this machine has none."""
        ...


def worker_port() -> WorkerPort:
    """The worker's implementation, imported now."""
    port: WorkerPort = load(PORT)
    return port


def load(target: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)

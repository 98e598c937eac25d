"""A stand-in for a server that scores texts and reranks: `kvjobs submit` asks it what it can do, and nothing else."""

from collections.abc import Mapping
from typing import ClassVar, Self

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.worker_port import ProviderCheck
from worker.providers.protocol import Provider, ProviderJob, ProviderLane, WarmModel


class Cloud:
    """Does not translate, and does not score pairs."""

    name: ClassVar[str] = "cloud"
    is_local: ClassVar[bool] = False

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        return cls()

    def why_not(self, job: ProviderJob) -> str | None:
        if job.spec.task is Task.TRANSLATE:
            return "it translates nothing"
        if isinstance(job.spec.options, ScoreOptions) and job.spec.options.pairs:
            return "a server scores texts, not pairs"
        return None

    def new_lane(self) -> ProviderLane:
        raise AssertionError("submit makes no lane")

    def warm(self) -> Mapping[str, WarmModel]:
        return {}

    def check(self) -> ProviderCheck:
        return ProviderCheck(name=self.name, found="no key", mend="get one")


PROVIDER: type[Provider] = Cloud

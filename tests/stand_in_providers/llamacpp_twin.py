"""A stand-in for a provider that computes in the worker's process, with models of its own: it can do any job."""

from collections.abc import Mapping
from typing import ClassVar, Self

from jobs.dispatch.worker_arguments import WorkerArguments
from worker.providers.protocol import Provider, ProviderJob, ProviderLane, WarmModel


class LlamacppTwin:
    """Runs any folder."""

    name: ClassVar[str] = "llamacpp_twin"
    is_local: ClassVar[bool] = True

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        return cls()

    def why_not(self, job: ProviderJob) -> str | None:
        return None

    def new_lane(self) -> ProviderLane:
        raise AssertionError("submit makes no lane")

    def warm(self) -> Mapping[str, WarmModel]:
        return {}


PROVIDER: type[Provider] = LlamacppTwin

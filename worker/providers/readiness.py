"""Whether the providers that the settings name are ready, for `kvjobs doctor`.

A provider that can tell implements `SelfCheck`: its library is there, its server answers (`check_server`).
"""

from typing import Protocol, runtime_checkable

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError
from jobs.providers import ONNX, Choice
from jobs.settings import Settings
from jobs.tasks.task import Task
from jobs.worker_port import ProviderCheck
from worker.providers.registry import provider_class


@runtime_checkable
class SelfCheck(Protocol):
    """A provider that can tell whether it is ready."""

    def check(self) -> ProviderCheck:
        """Whether its library and its server are there. Sends no document, and waits a few seconds at most."""


def check_providers(settings: Settings) -> list[ProviderCheck]:
    """The state of each provider that the settings name, but for onnx, in the order in which they do."""
    orders = (settings.provider_order(task) for task in Task)
    choices = {choice.name: choice for order in orders for choice in order.choices if choice.name != ONNX}
    return [_check(choice, settings) for choice in choices.values()]


def _check(choice: Choice, settings: Settings) -> ProviderCheck:
    try:
        provider = provider_class(choice.name).start(WorkerArguments(settings))
    except KvjobsError as error:
        return ProviderCheck(name=choice.name, found=str(error), mend="correct the settings: kvjobs config")
    if isinstance(provider, SelfCheck):
        return provider.check()
    return ProviderCheck(name=choice.name, found="it exists, and cannot tell more")

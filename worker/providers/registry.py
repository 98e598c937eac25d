"""The providers of a worker process: found by name, started once, shared by the lanes."""

import importlib
import pkgutil
import threading
from collections import defaultdict
from typing import Protocol, runtime_checkable

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError, SpecError, meant
from jobs.providers import ONNX, Choice
from jobs.settings import Settings
from jobs.tasks.task import Task
from jobs.worker_port import ProviderCheck
from worker.providers import available
from worker.providers.circuit_breaker import CircuitBreaker
from worker.providers.protocol import Provider, WarmModel


def provider_names() -> list[str]:
    """Every provider that there is, in alphabetical order: the modules of `worker.providers.available`."""
    return sorted(module.name for module in pkgutil.iter_modules(available.__path__))


def provider_class(name: str) -> type[Provider]:
    """The class of a provider. Imports its module. Raises SpecError where there is none of this name."""
    names = provider_names()
    if name not in names:
        raise SpecError(f"there is no provider {name!r}{meant(name, names)}; the providers are {', '.join(names)}")
    found: type[Provider] = importlib.import_module(f"{available.__name__}.{name}").PROVIDER
    return found


class Providers:
    """Started at the first job that names them: a worker that only runs onnx loads no HTTP client."""

    def __init__(self, arguments: WorkerArguments) -> None:
        self._arguments = arguments
        self._lock = threading.Lock()
        self._started: dict[str, Provider] = {}
        self._breakers: defaultdict[tuple[str, str, str], CircuitBreaker] = defaultdict(CircuitBreaker)

    def get(self, name: str) -> Provider:
        """The provider of this name. Raises SpecError where there is none."""
        with self._lock:
            if name not in self._started:
                # A new dictionary: the heartbeat's thread reads the old one without the lock.
                self._started = {**self._started, name: provider_class(name).start(self._arguments)}
            return self._started[name]

    def breaker(self, key: tuple[str, str, str]) -> CircuitBreaker:
        """The circuit breaker of a provider, its model and a task: `ProviderJob.key`."""
        with self._lock:
            return self._breakers[key]

    def warm(self) -> dict[str, WarmModel]:
        """The models that the providers of this process keep open, by revision."""
        return {revision: model for provider in self._started.values() for revision, model in provider.warm().items()}


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

"""What providers that are servers have in common: a client, and whether the server is ready, for `kvjobs doctor`."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.settings import Settings
from jobs.worker_port import ProviderCheck
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.providers.http.client import Exchange, JsonClient, RequestRefused, ServerAccess
from worker.providers.http.document_requests import EventLoop
from worker.providers.protocol import ProviderFailure, ProviderJob, WarmModel

TIMEOUT_S = 3.0
_LOCAL = ("127.0.0.1", "::1", "localhost")


class ServerProvider:
    """One server, shared by the lanes of a process. It is also the lane of each, as it keeps no state for a lane."""

    is_local: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._access = self.access(settings)
        self._client = JsonClient(self._access)
        self._loop = EventLoop()

    @staticmethod
    def access(settings: Settings) -> ServerAccess:
        """How the settings say that the server is reached."""
        raise NotImplementedError

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        return cls(arguments.settings)

    def new_lane(self) -> Self:
        return self

    def warm(self) -> Mapping[str, WarmModel]:
        return {}

    def batches_at_once(self, job: ProviderJob) -> int:
        return 1

    def changed_files(self) -> list[str]:
        return []

    @property
    def buffer_stats(self) -> BufferStats:
        return BufferStats()

    def close(self) -> None:
        """Close the connections. A worker keeps them until its process ends."""
        self._loop.run(self._client.close(), RunContext())
        self._loop.close()


def check_server(name: str, access: ServerAccess, path: str, *, mend: str) -> ProviderCheck:
    """Ask a server once for something that costs nothing: JSON at `path`, such as its models. `mend` tells what to do
    where it does not answer."""
    if not access.base_url:
        return ProviderCheck(name=name, found="no server is set", mend=mend)
    try:
        asyncio.run(_get(replace(access, timeout_s=TIMEOUT_S, attempts=1), path))
    except ProviderFailure as failure:  # its sentence names the server
        return ProviderCheck(name=name, found=str(failure), mend=mend)
    except RequestRefused as refused:
        return ProviderCheck(name=name, found=f"{access.host} refuses to answer ({refused})", mend=mend)
    if access.key and access.base_url.startswith("http://") and urlsplit(access.base_url).hostname not in _LOCAL:
        found = f"{access.host} answers, and the key goes there without encryption"
        return ProviderCheck(name=name, found=found, mend="use https, if the network is not yours", is_warning=True)
    return ProviderCheck(name=name, found=f"{access.host} answers")


async def _get(access: ServerAccess, path: str) -> Any:
    client = JsonClient(access)
    try:
        return await client.get(path, Exchange())
    finally:
        await client.close()

"""Whether a server is ready, for `kvjobs doctor`: it answers, and accepts the key."""

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from jobs.worker_port import ProviderCheck
from worker.providers.http.client import Exchange, JsonClient, RequestRefused, ServerAccess
from worker.providers.protocol import ProviderFailure

TIMEOUT_S = 3.0
_LOCAL = ("127.0.0.1", "::1", "localhost")


def check_server(name: str, access: ServerAccess, path: str, *, mend: str) -> ProviderCheck:
    """Ask a server once for something that costs nothing: JSON at `path`, such as its models. `mend` says what to do
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

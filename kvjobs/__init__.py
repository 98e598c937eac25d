"""kvjobs for Python: submit rows, wait, read results; here, or on a server.

    import kvjobs

    kvjobs.translate(["Snow will fall."])                # one call
    kv = kvjobs.connect()                                # or connect("https://host:8650", token="...")
    job = kv.submit(rows, task="score", model="gpt2")    # a path, dicts, a DataFrame, an Arrow table ...
    for result in job.wait().results(where="perplexity < 50"): ...

Imported in milliseconds: what a call needs is loaded by the call.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jobs import __version__ as __version__

if TYPE_CHECKING:
    from jobs.errors import CorpusError as CorpusError
    from jobs.errors import KvjobsError as KvjobsError
    from jobs.errors import ModelError as ModelError
    from jobs.errors import NotFoundError as NotFoundError
    from jobs.errors import SpecError as SpecError
    from jobs.errors import StoreError as StoreError
    from jobs.errors import TransientError as TransientError
    from kvjobs.client import Client as Client
    from kvjobs.client import connect as connect
    from kvjobs.job import Job as Job
    from kvjobs.one_call import generate as generate
    from kvjobs.one_call import rerank as rerank
    from kvjobs.one_call import score as score
    from kvjobs.one_call import translate as translate
    from kvjobs.open_job import OpenJob as OpenJob

_MODULES = {
    **dict.fromkeys(("connect", "Client"), "kvjobs.client"),
    "Job": "kvjobs.job",
    "OpenJob": "kvjobs.open_job",
    **dict.fromkeys(("translate", "score", "rerank", "generate"), "kvjobs.one_call"),
    **dict.fromkeys(
        ("KvjobsError", "SpecError", "CorpusError", "ModelError", "NotFoundError", "StoreError", "TransientError"),
        "jobs.errors",
    ),
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'kvjobs' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

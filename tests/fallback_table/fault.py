"""A way in which the first provider of a job fails, and what is to come of it."""

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobs.tasks.task import Task
from tests.scripted_api import Behaviour, Request

OPENAI, OLLAMA, LLAMACPP, ONNX_FIRST = "openai:m,onnx", "ollama:m,onnx", "llamacpp:quantized,onnx", "onnx,openai:m"
PLACES = ("Arden", "Orford", "Yarrow", "Kelso", "Oakham", "Lundy", "Fair Isle", "Dover")
TEXTS = [f"Rain will fall in {place} on Monday." for place in PLACES]
DOCUMENTS = len(PLACES)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row of the table. A job of 8 documents, or queries, is drained by a real lane."""

    what: str  # that goes wrong, as the table says it
    code: str  # on record: of handovers, of `job_providers.skipped` ("skipped"), or of failed documents
    order: str = OPENAI  # the first one fails
    answered: str = "onnx"  # the documents; "openai 3, onnx 5": more than one
    task: Task = Task.SCORE
    chat: bool = False  # of a generating job
    model: str | None = None  # of the job; None: the bundled one
    server: Sequence[Behaviour] = ()  # at the address of the first server; the last one answers all that follow
    settings: Mapping[str, Any] = field(default_factory=dict)  # {host} is the server's address and port
    tls: bool = False  # the server speaks TLS, with a certificate that nobody has signed
    per_batch: int = DOCUMENTS
    pause_s: float = 0.0  # for which a provider that has failed is not asked
    failed: int = 0  # documents
    fallback: bool = True
    # Called between submit and the worker, with the folder of models: damages what the job needs.
    prepare: Callable[[pytest.MonkeyPatch, Path], None] = lambda _patch, _models: None

    @property
    def provider(self) -> str:
        """The one that fails."""
        return self.order.partition(",")[0].partition(":")[0]

    @property
    def expected(self) -> dict[str, int]:
        """How many documents each provider has answered."""
        parts = [part.split() for part in self.answered.split(", ") if part]
        return {name: int(number[0]) if number else DOCUMENTS - self.failed for name, *number in parts}

    def __str__(self) -> str:
        return f"{self.provider}, {self.job}: {self.what}"

    @property
    def job(self) -> str:
        """What the job does, as the table says it."""
        return f"{self.task} --chat" if self.chat else self.task


def query_about(place: str) -> str:
    """A query with 3 candidates; the best one is the last."""
    others = [f"It will be dry in {other} until noon." for other in ("Arden", "Kelso")]
    candidates = [*others, f"Rain will fall in {place}."]
    listed = [{"id": f"c{number}", "text": text} for number, text in enumerate(candidates)]
    return json.dumps({"query": f"rain in {place}", "candidates": listed})


def from_the_4th(well: Behaviour, wrong: Behaviour) -> Behaviour:
    """A server that answers for three documents or queries, whatever it is asked before."""
    later = [words for place in PLACES[3:] for words in (f"Rain will fall in {place} on", f"rain in {place}")]

    def behave(request: Request, connection: socket.socket) -> None:
        is_later = any(words in str(request.body) for words in later)
        (wrong if is_later else well)(request, connection)

    return behave

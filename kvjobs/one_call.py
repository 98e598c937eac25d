"""A task in one call: texts in, results out. Each call is a job like any other, with its times in SQL."""

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobs.errors import KvjobsError, SpecError

if TYPE_CHECKING:
    from kvjobs.client import Client
    from kvjobs.job import Job

PRIORITY = "high"  # somebody waits


def translate(
    texts: Iterable[str], *, model: str | None = None, client: "Client | None" = None, **options: Any
) -> list[str]:
    """The translation of each text, in order; of a text without a letter or a digit, itself.

    The worker that the first call starts keeps the model open, so later calls take milliseconds. `client`: where the
    job is made; without one, at `kvjobs.connect()`. `options`: as of `Client.submit`. Raises KvjobsError for a text
    that could not be translated, and what `submit` raises.
    """
    return [result["translation"] for result in _results("translate", texts, model, client, options)]


def generate(
    prompts: Iterable[str], *, model: str | None = None, client: "Client | None" = None, **options: Any
) -> list[str]:
    """The continuation of each prompt, in order; options such as `max_new_tokens=50`, `temperature=0.7`, `chat=True`.
    Raises as `translate` does."""
    return [result["generation"] for result in _results("generate", prompts, model, client, options)]


def score(
    texts: Iterable[str], *, model: str | None = None, client: "Client | None" = None, **options: Any
) -> list[dict[str, Any]]:
    """The score of each text, in order: `nll_sum` (nats), `num_tokens`, `perplexity`, `bits_per_byte` and the other
    fields of a score in an export. Raises as `translate` does."""
    return [result["score"] for result in _results("score", texts, model, client, options)]


def rerank(
    query: str,
    passages: Iterable[str],
    *,
    model: str | None = None,
    client: "Client | None" = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """The passages, best first: `index` (among the passages, from 0), `score` and `text`. Raises as
    `translate` does."""
    texts = _texts("passages", passages)
    if not texts:
        return []
    candidates = [{"id": str(index), "text": text} for index, text in enumerate(texts)]
    row = {"id": "0", "query": query, "candidates": candidates}
    (result,) = _finished(_submit(client, [row], "rerank", model, options), 1)
    return [
        {"index": int(ranked["id"]), "score": ranked["score"], "text": texts[int(ranked["id"])]}
        for ranked in result["ranking"]
    ]


def _results(
    task: str, texts: Iterable[str], model: str | None, client: "Client | None", options: dict[str, Any]
) -> list[dict[str, Any]]:
    given = _texts("texts", texts)
    rows = [{"id": str(index), "text": text} for index, text in enumerate(given)]
    return _finished(_submit(client, rows, task, model, options), len(rows)) if rows else []


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise SpecError(f"{name} is one text; give a list: [{texts[:20]!r}]")
    return list(texts)


def _submit(
    client: "Client | None", rows: Sequence[dict[str, Any]], task: str, model: str | None, options: dict[str, Any]
) -> "Job":
    return (client or own_client()).submit(rows, task=task, model=model, **{"priority": PRIORITY, **options}).wait()


def _finished(job: "Job", number: int) -> list[dict[str, Any]]:
    """The records of all documents. Raises KvjobsError for the first that has no result."""
    records = list(job.results(only="all"))
    for record in records:
        if record["status"] != "ok":
            problem = (record.get("error") or {}).get("message") or f"it is {record['status']}"
            raise KvjobsError(f"text {int(record['id'] or 0)} (from 0) of job {job.id}: {problem}")
    if len(records) != number:
        raise KvjobsError(f"job {job.id} has {len(records)} results of {number}; it is {job.state}")
    return records


@functools.cache
def own_client() -> "Client":
    """The client of calls without one. Its worker ends with this process."""
    from kvjobs.client import connect

    return connect()

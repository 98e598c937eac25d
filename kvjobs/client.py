"""A client: submits rows and finds jobs, in the database of this machine's settings or on a server."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from jobs.errors import SpecError
from jobs.settings import read_settings
from kvjobs.rows import spooled

if TYPE_CHECKING:
    from kvjobs.backend import Backend, Submitted
    from kvjobs.job import Job
    from kvjobs.open_job import OpenJob

log = logging.getLogger("kvjobs")
HTTP = ("http://", "https://")


def connect(address: str | None = None, *, token: str | None = None, **settings: Any) -> "Client":
    """A client of the database that the settings name, as the commands find it; or of `address`: a database
    (`postgresql+psycopg://...`, `sqlite:///...`), or a server (`https://host:8650`) with its `token`.

    `settings`: as in kvjobs.toml, such as `home="/data/kvjobs"`; they come before it. Raises SpecError for an address
    or a setting that cannot be used, StoreError where the database does not answer.
    """
    if address is not None and address.startswith(HTTP):
        from kvjobs.remote import RemoteJobs

        if settings:
            raise SpecError(f"{next(iter(settings))} is a setting of the server; leave it out")
        return Client(RemoteJobs(address, token))
    if token is not None:
        raise SpecError("a token is for a server: connect('https://HOST:8650', token=...)")
    from kvjobs.local import LocalJobs

    flags = settings if address is None else {**settings, "database": address}
    return Client(LocalJobs(read_settings(flags, warn=log.warning)[0]))


class Client:
    """Jobs of one home. Threads may share it; `close` it, or use it in a `with` block, so that a worker that it started
    ends. (It also ends with the process.)"""

    def __init__(self, backend: "Backend") -> None:
        self._backend = backend

    def submit(self, rows: Any, *, task: str = "translate", model: str | None = None, **options: Any) -> "Job":
        """Make a job of rows, or find the one that was made of them before: the same rows and options are the same job;
        `again=True` makes another, and `key="..."` names a job whatever its rows hold.

        `rows`: a path or an address; a list of `pathlib.Path`, which are files that come back translated; an iterable
        of dicts (`id` and `text`, further fields pass through) or of texts, which is read once and never held in
        memory; a DataFrame of pandas or polars, an Arrow table or stream, a `datasets.Dataset`. `options`: those of
        `kvjobs submit`, with underscores: `beam_size=4`, `name="night"`, `max_rejected="1%"`, `then=[{"task": "score",
        "model": "gpt2"}, "filter perplexity < 50"]`.

        Raises SpecError for rows or options that cannot be used (CorpusError names the lines), NotFoundError and
        ModelError for a model.
        """
        with _named_options(), spooled(rows, self._spool) as corpus:
            return self._job(self._backend.submit(corpus, _given(task, model, options)))

    def dry_run(
        self, rows: Any, *, task: str = "translate", model: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Read rows and count what a job of them would compute: documents, rejected lines, tokens, seconds."""
        with _named_options(), spooled(rows, self._spool) as corpus:
            return self._backend.dry_run(corpus, _given(task, model, options))

    def open(self, *, task: str = "translate", model: str | None = None, **options: Any) -> "OpenJob":
        """Open a job to which documents are added one by one, while workers process those that are there; for use in a
        `with` block, which closes it. With `key="..."` it is the open job of this key."""
        from kvjobs.open_job import OpenJob

        with _named_options():
            submitted = self._backend.open_job(_given(task, model, options))
        self._tell(submitted)
        return OpenJob(self._backend, submitted.job, key=options.get("key"))

    def job(self, reference: int | str = "last") -> "Job":
        """The job with this number or name, or the newest. Raises NotFoundError."""
        from kvjobs.job import Job

        return Job(self._backend, self._backend.job(str(reference)))

    def jobs(self, state: str | Sequence[str] = (), limit: int = 20) -> "list[Job]":
        """The newest jobs, newest first; with `state` those that are running, waiting, paused, done ..."""
        from kvjobs.job import Job

        states = (state,) if isinstance(state, str) else tuple(state)
        return [Job(self._backend, info) for info in self._backend.jobs(states, limit)]

    def models(self) -> list[dict[str, Any]]:
        """The models that can be named: name, kind, tasks, precision, size in bytes."""
        return self._backend.models()

    def translate(self, texts: Sequence[str], *, model: str | None = None, **options: Any) -> list[str]:
        """The translation of each text, in order. Raises KvjobsError for a text that has none."""
        from kvjobs.one_call import translate

        return translate(texts, model=model, client=self, **options)

    def score(self, texts: Sequence[str], *, model: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """The score of each text, in order: nll_sum (nats), num_tokens, perplexity, bits_per_byte ..."""
        from kvjobs.one_call import score

        return score(texts, model=model, client=self, **options)

    def rerank(
        self, query: str, passages: Sequence[str], *, model: str | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """The passages, best first: `index` among the passages, `score`, `text`."""
        from kvjobs.one_call import rerank

        return rerank(query, passages, model=model, client=self, **options)

    def generate(self, prompts: Sequence[str], *, model: str | None = None, **options: Any) -> list[str]:
        """The continuation of each prompt, in order."""
        from kvjobs.one_call import generate

        return generate(prompts, model=model, client=self, **options)

    def close(self) -> None:
        """Let a worker that this client started finish its batch and end."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"kvjobs.connect({self._backend.where!r})"

    @property
    def _spool(self) -> Path:
        return self._backend.spool

    def _job(self, submitted: "Submitted") -> "Job":
        from kvjobs.job import Job

        self._tell(submitted)
        return Job(self._backend, submitted.job, prior_state=submitted.prior_state, notes=submitted.notes)

    def _tell(self, submitted: "Submitted") -> None:
        for note in submitted.notes:
            log.info("%s", note)


@contextmanager
def _named_options() -> Iterator[None]:
    """Messages name options as Python does: `max_text`, not `--max-text`."""
    try:
        yield
    except SpecError as error:
        from jobs.operations.option_names import with_names

        raise type(error)(with_names(str(error))) from None


def _given(task: str, model: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: one that is None is at its default. Of a file that an option names, its text: the
    program that reads it may be on another machine."""
    from jobs.terms.glossary import path_in, text_of_file

    given = {name: value for name, value in {"task": task, "model": model, **options}.items() if value is not None}
    for name in ("glossary", "no_translate"):
        if (path := path_in(given.get(name))) is not None:
            given[name] = text_of_file(path)
    return given

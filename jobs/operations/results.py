"""The results of a job as a program asks for them: options as plain values, bytes as an export writes them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobs.choices import Only
from jobs.errors import SpecError, meant
from jobs.export.export_formats import Format
from jobs.export.export_options import Export
from jobs.export.originals import Addition
from jobs.export.result_columns import Extra
from jobs.export.result_lines import result_lines
from jobs.store.database import Database
from jobs.store.report.job_summary import find_chain, find_job
from jobs.store.where.condition import Condition
from jobs.tasks.option import Option, option, options_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """Which results, and in which form: the options of `kvjobs export` that are about them."""

    format: Format = option(Format.JSONL, "The format.")
    where: str | None = option(None, "Only documents that meet a condition: perplexity < 50 and lang = 'de'.")
    only: Only | None = option(
        None,
        "Only documents with a result (ok), that ended without one (failed), or that have not ended (waiting); all: "
        "every document.  [default: those that ended]",
    )
    extras: tuple[str, ...] = option((), f"Further values: {', '.join(Extra)}.")
    add: tuple[str, ...] = option((), "With the format original: values of the result to append, as NAME or NAME=AS.")
    chain: bool = option(False, "The results of all stages of the chain that the job belongs to.")

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "ResultOptions":
        """The options from plain values by name, as JSON has them. Raises SpecError."""
        if unknown := next((name for name in values if name not in OF_RESULTS), None):
            raise SpecError(f"there is no option {unknown!r}{meant(unknown, OF_RESULTS)}")
        read = cls(**{name: OF_RESULTS[name].read(value) for name, value in values.items()})
        for extra in read.extras:
            if extra not in tuple(Extra):
                raise SpecError(f"extras has {extra!r}{meant(extra, Extra)}; it can have {', '.join(Extra)}")
        return read


OF_RESULTS: Mapping[str, Option] = {declared.name: declared for declared in options_of(ResultOptions)}


def read_results(
    database: Database, reference: str, options: ResultOptions, *, tell: Callable[[str], None]
) -> Iterator[bytes]:
    """The head of the file, then the bytes of each document, then the end of the file; each may be empty. `tell` gets
    what the reader should know besides. Raises, before the head, NotFoundError for a job that does not exist and
    SpecError for options that it does not take."""
    export = Export(
        form=options.format,
        only=options.only,
        extras=[Extra(extra) for extra in options.extras],
        additions=[Addition.parse(addition) for addition in options.add],
    )
    with database.reading() as connection:
        job = find_job(connection, reference)
        if options.where is not None:
            export = replace(export, condition=Condition.parse(options.where).of_job(connection, job.job_id))
        if options.chain:
            stages = find_chain(connection, job)
            if len(stages) == 1:
                raise SpecError(f"job {job.label} belongs to no chain; leave chain out")
            export = replace(export, stages=stages)
    form = export.format_for(None)
    lines = result_lines(database, job, form, export, tell=tell)
    head = next(lines)
    return _from(head, lines)


def _from(head: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from lines

"""The options of `kvjobs submit`: those of every job, and what the command itself does besides."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from jobs.addresses.address import Location, located
from jobs.cli.job_exit import json_option
from jobs.cli.parsed_type import Parsed
from jobs.cli.price_option import price_option
from jobs.cli.task_options import click_option, given_values
from jobs.cli.then_option import stage_values
from jobs.errors import SpecError
from jobs.submission.job_options import OF_EVERY_JOB, SubmitRequest
from jobs.tasks.kinds import KINDS, every_option

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """One call of `kvjobs submit`; raises SpecError for options that exclude one another."""

    corpus: str | None  # a path, an address, or - for standard input
    from_sql: str | None  # a query, in place of a corpus
    source: str | None  # which database is asked
    wait: bool
    output: Location | None  # of the results, with `wait`
    on_end: str | None  # a command of the shell, with `wait`
    dry_run: bool
    quiet: bool
    as_json: bool
    openai_price_per_million: str | None  # with `wait`: for the embedded worker
    request: SubmitRequest

    def __post_init__(self) -> None:
        if self.output and not self.wait:
            raise SpecError("-o needs --wait; without it, export the results later: kvjobs export JOB -o FILE")
        if self.on_end is not None and not self.wait:
            raise SpecError("--on-end needs --wait; without it, --notify URL tells you of the end")
        if self.openai_price_per_million is not None and not self.wait:
            raise SpecError("--price-per-million needs --wait; without it, give it to kvjobs worker")
        if self.from_sql is not None and self.corpus is not None:
            raise SpecError("--from-sql takes the place of CORPUS; give only one of the two")
        if (self.from_sql is None) != (self.source is None):
            raise SpecError("--from-sql and --source belong together: a query, and the database that is asked")
        if self.from_sql is None and self.corpus is None:
            raise SpecError("name a corpus: a file, a folder, a pattern, an address, or - for standard input")
        self._check_standard_output()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SubmitOptions":
        """The options, from the parameters of the command. Raises SpecError for options that exclude one another."""
        own = {field.name for field in dataclasses.fields(cls)}
        given = given_values({name: value for name, value in values.items() if name not in own})
        if "then" in given:
            given["then"] = [stage_values(text) for text in given["then"]]
        return cls(**{name: value for name, value in values.items() if name in own}, request=SubmitRequest.read(given))

    @property
    def results(self) -> Location | None:
        """Where the results go: a file, `-` for standard output, or None for nowhere."""
        job = self.request.job
        if self.output is None and self.wait and (not KINDS[job.task].is_scored or job.then):
            return Path("-")
        return self.output

    def _check_standard_output(self) -> None:
        """Standard output carries one thing: the results, the job's number, or its JSON."""
        if self.quiet and self.as_json:
            raise SpecError("--json and -q exclude each other; give only one of the two")
        if self.quiet and self.dry_run:
            raise SpecError("--dry-run makes no job, so -q has no number to print; leave -q out")
        if (self.quiet or self.as_json) and str(self.results) == "-" and not self.dry_run:
            raise SpecError(
                f"{'-q' if self.quiet else '--json'} writes to standard output, and so would the results; write the "
                "results to a file with -o FILE"
            )


def submit_options(command: Command) -> Command:
    """Add the options to a command, in the order of its help."""
    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command


_SQL_OPTIONS = (
    click.option(
        "--from-sql",
        metavar="QUERY",
        help="In place of CORPUS: the rows of a query, whose columns are the fields of a document: "
        "'select id, body as text from articles order by id'.",
    ),
    click.option(
        "--source",
        metavar="DATABASE",
        help="The database that --from-sql asks, read-only: postgresql://user@host/name, sqlite:////path/file.db, "
        "mysql://...; with a password, the name of the environment variable that holds it, or @FILE.",
    ),
)
then_option = click.option("--then", metavar="STAGE", multiple=True, help=OF_EVERY_JOB["then"].help)

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    *(click_option(OF_EVERY_JOB[name]) for name in ("task", "model", "providers", "no_fallback")),
    then_option,
    click.option(
        "--wait",
        is_flag=True,
        help="Show progress until the job ends, then write its results. Starts a worker if none serves the job.",
    ),
    click.option(
        "-o",
        "--output",
        type=Parsed(located),
        metavar="PATH",
        help="With --wait: the file for the results, or its address (s3://bucket/out.jsonl); - is standard output.  "
        "[default: standard output, but no file for scores]",
    ),
    click.option(
        "--on-end",
        metavar="COMMAND",
        help="With --wait: run this command of the shell after the end. Its environment has KVJOBS_JOB, the job's "
        "number, and KVJOBS_STATE: done or cancelled.",
    ),
    *_SQL_OPTIONS,
    *(click_option(OF_EVERY_JOB[name]) for name in ("name", "key", "priority", "queue")),
    *(click_option(OF_EVERY_JOB[name]) for name in ("format", "delimiter", "columns", "encoding", "id_field")),
    click_option(every_option()["text_field"]),
    *(click_option(OF_EVERY_JOB[name]) for name in ("max_text", "strict", "max_rejected")),
    click.option(
        "--dry-run", is_flag=True, help="Read the corpus and report what a job would process; submit nothing."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only the job's number, and errors."),
    json_option,
    click_option(OF_EVERY_JOB["notify"]),
    click_option(OF_EVERY_JOB["again"]),
    click_option(every_option()["timing"]),
    price_option,
)

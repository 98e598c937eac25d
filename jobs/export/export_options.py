"""The options of an export: which documents, which of their values, in which format."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.addresses.address import Location
from jobs.choices import Only
from jobs.compression import PACKINGS, inner_suffix, packing_of
from jobs.errors import SpecError, nearest
from jobs.export.export_formats import Format
from jobs.export.result_columns import Extra
from jobs.system.requirements import is_installed, needs_pyarrow
from jobs.tasks.kinds import KINDS

if TYPE_CHECKING:
    from jobs.export.originals import Addition
    from jobs.store.report.job_summary import JobSummary
    from jobs.store.where.condition import Condition

# The format that a file name means, before .gz, .zst ...
SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".txt": Format.TXT,
    ".run": Format.TREC,
    ".parquet": Format.PARQUET,
}
WITH_EXTRAS = (Format.JSONL, Format.CSV, Format.TSV, Format.PARQUET)  # that hold several values of a document


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The options of one export."""

    form: Format | None = None  # None: by the name of the file, else JSON Lines
    only: Only | None = None
    condition: "Condition | None" = None
    extras: Sequence[Extra] = ()
    additions: "Sequence[Addition]" = ()  # values to append to the lines of the corpus
    defuse: bool = True
    delimiter: str = ","  # of CSV
    bom: bool = False  # a byte order mark at the start of a table, by which Excel recognizes UTF-8
    stages: "Sequence[JobSummary]" = ()  # of a chain that is exported as a whole
    spool: Path | None = None  # folder for a copy of a corpus that lies elsewhere; None: it is not read again

    def format_for(self, path: Location | None) -> Format:
        """The format for a file; None: standard output. Raises SpecError for options that this format does not take."""
        form = self.form or (Format.JSONL if path is None else format_of(path))
        if form is Format.PARQUET and path is not None and packing_of(path.name) is not None:
            name = str(path).removesuffix(Path(path.name).suffix)
            raise SpecError(f"parquet compresses its own pages; name the file {name}")
        if (
            path is not None
            and path.name.lower().endswith(".parquet")
            and form not in (Format.PARQUET, Format.ORIGINAL)
        ):
            raise SpecError(f"{path} would hold {form}; name it otherwise, or leave --format out")
        if self.extras and form not in WITH_EXTRAS:
            raise SpecError(f"--format {form} cannot hold more values; leave --with {self.extras[0]} out")
        if self.additions and form is not Format.ORIGINAL:
            raise SpecError(f"--add is for --format original, and {form} has the results anyway; leave --add out")
        if self.stages:
            check_chain_format(form)
        if self.delimiter != "," and form is not Format.CSV:
            raise SpecError(f"--delimiter is for --format csv, and the format is {form}; leave it out")
        if self.bom and form not in (Format.CSV, Format.TSV, Format.ORIGINAL):
            raise SpecError(f"--bom is for csv and tsv, and the format is {form}; leave it out")
        return form


def format_of(path: Location) -> Format:
    """The format by the file name: results.csv.gz is CSV, a name without a suffix is JSON Lines. Raises SpecError for
    an unknown suffix."""
    suffix = inner_suffix(path.name)
    if suffix is None:
        return Format.JSONL
    if suffix not in SUFFIXES:
        near = nearest(suffix, SUFFIXES, cutoff=0.7)
        raise SpecError(
            f"{path}: results are not written as {suffix}; "
            + (f"did you mean {near}? The" if near else "the")
            + f" suffixes are {', '.join(SUFFIXES)}, a further {', '.join(PACKINGS)} compresses the file, and "
            "kvjobs export --format FORMAT writes any name"
        )
    return SUFFIXES[suffix]


def check_chain_format(form: Format) -> None:
    """Raise SpecError if this format cannot hold the results of several stages."""
    if form not in WITH_EXTRAS:
        raise SpecError(
            f"the results of a chain are written as {', '.join(WITH_EXTRAS)}, and the format is {form}; choose one of "
            "those, or export a stage alone: kvjobs export JOB, with the number of its job"
        )


def check_format(form: Format, task: str) -> None:
    """Raise SpecError if this format cannot hold the results of a task; called before the work too, to fail early."""
    if form is Format.PARQUET and not is_installed("pyarrow"):
        raise SpecError(needs_pyarrow())
    kind = KINDS[task]
    having = [kind.name for kind in KINDS.values() if form in kind.formats]
    if form is Format.TXT and task not in having:
        others = f"jsonl, csv, tsv, {' or '.join(kind.formats)}"
        raise SpecError(f"a {kind.main} does not fit into one line of text; write it as {others}")
    if having and task not in having:
        run = " (the format of a file named .run)" if form is Format.TREC else ""
        raise SpecError(f"--format {form}{run} is for jobs that {having[0]}, and the task is {task}; choose another")

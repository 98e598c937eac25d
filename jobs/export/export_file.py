"""Writing an export to a file, completely or not at all, or to a stream."""

from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from jobs.addresses.address import Location
from jobs.corpus.lines import BOM
from jobs.corpus.openai.request_kind import kind_in
from jobs.export.export_formats import Format
from jobs.export.export_options import Export, check_chain_format, check_format, format_of

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


def export_file(
    database: "Database",
    job: "JobSummary",
    path: Location,
    export: Export | None = None,
    *,
    tell: Callable[[str], None],
) -> int:
    """Write a file of results, either completely or not at all; return the number of documents. See `result_lines`."""
    from jobs.export.result_file import result_file

    export = export or Export()
    form = default_format(export, job, export.format_for(path))
    check_format(form, job.task)
    if form is Format.ORIGINAL:
        from jobs.export.originals import check_original_name

        check_original_name(database, job, path)
    with result_file(path, corpus=job.source) as target:
        return write_results(database, job, target, form, export, tell=tell)


def default_format(export: Export, job: "JobSummary", form: Format) -> Format:
    """The format of JSON Lines for a job, where none was asked for: of a batch file OpenAI's output lines."""
    is_asked = export.form is not None or export.extras or export.stages
    is_batch = form is Format.JSONL and not is_asked and kind_in(job.reading) is not None
    return Format.OPENAI if is_batch else form


def check_results_file(path: Location, *, task: str, corpus: str, is_chain: bool) -> None:
    """Raise SpecError for an export that could not be written later, before hours of work are spent on it."""
    from jobs.export.result_file import check_result_path

    check_result_path(path, corpus=corpus)
    form = format_of(path)
    check_format(form, task)
    if is_chain:
        check_chain_format(form)


def write_results(
    database: "Database",
    job: "JobSummary",
    target: BinaryIO,
    form: Format,
    export: Export | None = None,
    *,
    tell: Callable[[str], None],
) -> int:
    """Write the results of a job to a stream; return the number of documents. See `result_lines`."""
    from jobs.export.result_lines import result_lines

    export = export or Export()
    lines = result_lines(database, job, form, export, tell=tell, to_terminal=target.isatty())
    head = next(lines)
    target.write(BOM + head if export.bom and not head.startswith(BOM) else head)
    num_pieces = 0
    for piece in lines:
        target.write(piece)
        num_pieces += 1
    return num_pieces - 1  # the last is the end of the file

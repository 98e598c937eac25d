"""Writing an export to a file, completely or not at all, to a stream, or to a folder of files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from jobs.addresses.address import Location
from jobs.compression import inner_suffix
from jobs.corpus.lines import BOM
from jobs.corpus.openai.request_kind import kind_in
from jobs.errors import SpecError
from jobs.export.export_formats import Format
from jobs.export.export_options import SUFFIXES, Export, check_chain_format, check_format, format_of
from jobs.files.formats import suffix_of

if TYPE_CHECKING:
    from jobs.corpus.translatable.stored_reading import StoredReading
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary

ZIP = ".zip"


def export_file(
    database: "Database",
    job: "JobSummary",
    path: Location,
    export: Export | None = None,
    *,
    tell: Callable[[str], None],
) -> int:
    """Write a file of results, either completely or not at all; return the number of documents. Of a corpus of files,
    write those to a folder, each completely or not at all. See `result_lines`."""
    from jobs.export.result_file import result_file

    export = export or Export()
    form = format_for_job(export, job.reading, path)
    check_format(form, job.task)
    if form is Format.ORIGINAL:
        from jobs.export.originals import check_original_name

        check_original_name(database, job, path)
    if form is Format.FILES and (folder := folder_of_files(job.reading, path)) is not None:
        from jobs.export.translated_files import write_folder

        return write_folder(database, job, folder, export, tell=tell)
    if form is Format.FILES:
        _check_suffix(path, job.reading, job.source)
    with result_file(path, corpus=job.source) as target:
        return write_results(database, job, target, form, export, tell=tell)


def format_for_job(export: Export, reading: str | None, path: Location | None) -> Format:
    """The format of an export, by its options, how the job's corpus was read, and where it is written to; None:
    standard output. Raises SpecError for options that exclude one another."""
    if is_of_files(export.form, reading, path) and not export.stages:
        return Format.FILES
    return default_format(export, reading, export.format_for(path))


def is_of_files(form: str | None, reading: str | None, path: Location | None) -> bool:
    """Whether an export writes the files of the corpus: where that is asked for, or where the corpus is of files and
    the name of the export is not that of a file of results."""
    if form is not None or path is None or _reading_of_files(reading) is None:
        return form == Format.FILES
    return inner_suffix(path.name) not in SUFFIXES or (isinstance(path, Path) and path.is_dir())


def default_format(export: Export, reading: str | None, form: Format) -> Format:
    """The format of JSON Lines for a job, where none was asked for: of a batch file OpenAI's output lines."""
    is_asked = export.form is not None or export.extras or export.stages
    is_batch = form is Format.JSONL and not is_asked and kind_in(reading) is not None
    return Format.OPENAI if is_batch else form


def check_results_file(path: Location, *, task: str, corpus: str, reading: str | None, is_chain: bool) -> None:
    """Raise SpecError for an export that could not be written later, before hours of work are spent on it."""
    from jobs.export.result_file import check_result_path

    if is_of_files(None, reading, path) and not is_chain:
        check_format(Format.FILES, task)
        if (folder := folder_of_files(reading, path)) is not None:
            from jobs.export.translated_files import check_folder

            check_folder(folder, corpus)
        else:
            check_result_path(path, corpus=corpus)
            _check_suffix(path, reading, corpus)
        return
    check_result_path(path, corpus=corpus)
    form = format_of(path)
    check_format(form, task)
    if is_chain:
        check_chain_format(form)


def folder_of_files(reading: str | None, path: Location) -> Path | None:
    """The folder that the files of a corpus are written to; None where a file is written: the one of a corpus that is
    one, or an archive of all. Raises SpecError for an address."""
    how = _reading_of_files(reading)
    if (how is not None and how.is_one and not (isinstance(path, Path) and path.is_dir())) or path.name.endswith(ZIP):
        return None
    if not isinstance(path, Path):
        raise SpecError(f"files are written to a folder of this machine; write an archive there: {path}{ZIP}")
    return path


def _check_suffix(path: Location, reading: str | None, corpus: str) -> None:
    """Raise SpecError where the one file of a corpus would get the name of another format."""
    how = _reading_of_files(reading)
    suffix = suffix_of(how.name_of_one(corpus)) if how is not None and how.is_one else None
    if suffix is not None and not path.name.lower().endswith(suffix):
        raise SpecError(f"the corpus is a file of {suffix}, and is written as one; give {path} that suffix")


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


def _reading_of_files(reading: str | None) -> "StoredReading | None":
    from jobs.corpus.translatable.stored_reading import reading_of_files  # loads the readers of corpora; help does not

    return reading_of_files(reading)

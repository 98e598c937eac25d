"""Measurements of `bench cache` in the database. The command prints them without a database, too."""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs import __version__
from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.errors import KvjobsError
from jobs.text.formatting import counted
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind

if TYPE_CHECKING:
    from jobs.store.model_reports import CacheReportRow
    from worker.engine.tasks.cache_report import CacheReport


def store_reports(
    context: Context,
    folder: ModelFolder,
    before: tuple[str, str],
    reports: "Sequence[CacheReport]",
    *,
    kind: ModelKind,
    stages: int | None,
    source_tokens: int,
) -> Sequence[int | None]:
    """Store the measurements of one call; the number of each, or None of each where they were not stored.

    `before`: stamp and revision of the model's files when the call began. `stages`: of a split model.
    Whatever prevents it is a message, no error.
    """
    nowhere = [None] * len(reports)
    stamp, revision = before
    if folder.stamp() != stamp:
        print_message(f"The measurements were not stored: files of {folder.name} changed meanwhile.")
        return nowhere
    try:
        from jobs.store.model_reports import log_cache_reports

        rows = [_row(report, folder.name, stamp, revision, kind, stages, source_tokens) for report in reports]
        with context.database() as database:
            numbers = log_cache_reports(database, rows)
    except (KvjobsError, OSError) as error:
        print_message(f"The measurements were not stored, since the database cannot be written: {error}")
        return nowhere
    stored = counted(len(numbers), "measurement")
    print_message(f"Stored {stored}; to list them: {context.command('query', '--saved', 'cache-reports')}")
    return numbers


def _row(
    report: "CacheReport",
    model: str,
    stamp: str,
    revision: str,
    kind: ModelKind,
    stages: int | None,
    source_tokens: int,
) -> "CacheReportRow":
    from jobs.store.model_reports import CacheReportRow
    from worker.engine.runtime.device import processor_name

    on, off = report.on, report.off
    return CacheReportRow(
        model=model,
        model_revision=revision,
        files_stamp=stamp,
        kind=kind.value,
        stages=stages,
        host=socket.gethostname(),
        processor=processor_name(),
        num_sequences=report.num_segments,
        source_tokens=source_tokens,
        target_tokens=report.target_tokens,
        batch_size=report.batch_size,
        num_beams=report.num_beams,
        repeats=report.repeats,
        cached_s=on.seconds,
        uncached_s=off.seconds,
        cached_step_s=on.seconds_per_step,
        uncached_step_s=off.seconds_per_step,
        cached_early_s=on.early_s,
        uncached_early_s=off.early_s,
        cached_late_s=on.late_s,
        uncached_late_s=off.late_s,
        num_different=report.num_different,
        kv_bytes=report.kv_bytes,
        version=__version__,
        steps=list(zip(on.step_s, off.step_s, strict=True)),
    )

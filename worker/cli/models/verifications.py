"""Results of `models verify` in the database. The commands that show or store them work without a database, too."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs import __version__
from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.errors import KvjobsError
from worker.models.model_folder import ModelFolder, known_revision

if TYPE_CHECKING:
    from jobs.store.model_reports import Standing, Verification
    from worker.model_tools.verify.checks import VerifyCheck


def stored_verifications(context: Context) -> "list[Verification]":
    """The newest of each model and revision, newest first. A database that cannot be read is named in a message."""
    file = context.settings.database_file
    if file is not None and not file.exists():
        return []  # nothing was stored yet, and a list need not create a database
    try:
        from jobs.store.model_reports import newest_verifications

        with context.database_as_it_is() as database, database.reading() as connection:
            return newest_verifications(connection)
    except (KvjobsError, OSError) as error:
        print_message(f"Whether models were verified is unknown, since the database cannot be read: {error}")
        return []


def standing_of(folder: ModelFolder, stored: "Sequence[Verification]") -> "Standing | None":
    """Whether a model, with its present files, is verified; None if it never was."""
    if not stored:
        return None
    from jobs.store.model_reports import standing

    return standing(
        stored, (folder.name, str(folder.path)), folder.stamp, lambda: known_revision(folder.path, folder.stamp())
    )


def store_verification(
    context: Context,
    folder: ModelFolder,
    before: tuple[str, str],
    checks: "Sequence[VerifyCheck]",
    *,
    num_texts: int,
    text_unit: str,
    corpus: str | None,
) -> None:
    """Store what was found. `before`: stamp and revision of the files when the run began. Whatever prevents it is a
    message, no error: the command prints its result all the same."""
    stamp, revision = before
    if folder.stamp() != stamp:
        print_message(f"The result was not stored: files of {folder.name} changed meanwhile.")
        return
    from worker.model_tools.verify.checks import decisive_check

    decisive = decisive_check(checks)
    try:
        from jobs.store.model_reports import Verification, log_verification

        verification = Verification(
            model=folder.name,
            model_revision=revision,
            files_stamp=stamp,
            check_name=decisive.name,
            against=decisive.against,
            verdict=decisive.verdict,
            num_texts=num_texts,
            text_unit=text_unit,
            corpus=corpus,
            same_tokens=decisive.tokens,
            worst=decisive.worst,
            drift=decisive.drift,
            checks=[dataclasses.asdict(check) for check in checks],
            version=__version__,
        )
        with context.database() as database:
            log_verification(database, verification)
    except (KvjobsError, OSError) as error:
        print_message(f"The result was not stored, since the database cannot be written: {error}")

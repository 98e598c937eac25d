"""`kvjobs memory`: the translation memory, and what people add to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.errors import SpecError
from jobs.number_ranges import Real
from jobs.text.formatting import count, counted, moment

if TYPE_CHECKING:
    from jobs.units.translation_unit import TranslationUnit, UnitLanguages

EXIT_SOME_REJECTED = 3
SHOWN_REJECTS, MAX_TOLD_REJECTS = 10, 1_000
FIELDS = (*("origin", "model", "source_language", "target_language", "file", "units", "newest_at"),)
COLUMNS = (
    Column("origin", "ORIGIN"),
    Column("model", "MODEL"),
    Column("source_language", "FROM"),
    Column("target_language", "INTO"),
    Column("file", "FILE", rank=2),
    Column("units", "UNITS", count, right=True),
    Column("newest_at", "NEWEST", moment, rank=1),
)


@click.group()
def memory() -> None:
    """Import, export, list and prune the translation memory.

    A sentence that was translated before, by the same model with the same options, is not translated again. An imported
    translation comes before that of any model between these languages. Both are used unless a job has --no-reuse.
    """


def _languages(command: click.decorators.FC) -> click.decorators.FC:
    for side in ("target", "source"):
        command = click.option(
            f"--{side}-language",
            metavar="LANGUAGE",
            help=f"The {side}'s language, where the file or the job does not say it; of several, this one alone.",
        )(command)
    return command


@memory.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_languages
@output_options()
@click.pass_obj
def import_(
    context: Context, output: Output, file: Path, source_language: str | None, target_language: str | None
) -> int:
    """Import translations from FILE, .tmx or .tsv (also .gz).

    Each unit is a sentence and its translation. A job between these languages takes the translation where a sentence
    equals the source, character for character. Of two units with the same source the one imported last counts. A unit
    that cannot be read is rejected with its line, and the exit code is 3; of a file that is broken nothing is imported.
    """
    from jobs.store.imported_units import import_units
    from jobs.units.translation_unit import BadUnit, UnitLanguages
    from jobs.units.unit_file import read_units

    languages = UnitLanguages(source_language, target_language)
    rejected: list[BadUnit] = []
    good = bad = 0
    pairs: set[tuple[str, str]] = set()
    for unit in read_units(file, languages):  # once without storing: a broken file changes nothing
        if isinstance(unit, BadUnit):
            bad += 1
            if bad <= MAX_TOLD_REJECTS:
                rejected.append(unit)
        else:
            good += 1
            pairs.add((unit.source_language, unit.target_language))
    for unit in rejected[:SHOWN_REJECTS]:
        print_message(f"{file}, line {unit.line}: {unit.reason}.")
    if bad > SHOWN_REJECTS:
        print_message(
            f"... and {counted(bad - SHOWN_REJECTS, 'other unit')}; --json lists the first {MAX_TOLD_REJECTS:,}."
        )
    if good:
        with context.database() as database:
            good = import_units(database, _good(file, languages), file.name)
    said = f"Imported {counted(good, 'unit')} from {file}"
    said += f" ({', '.join(f'{source} to {target}' for source, target in sorted(pairs)[:5])})" if pairs else ""
    print_message(f"{said}; {bad:,} rejected." if bad else f"{said}.")
    told = [{"line": unit.line, "reason": unit.reason} for unit in rejected]
    output.record({"units": good, "num_rejected": bad, "rejected": told}, lambda: None)
    return EXIT_SOME_REJECTED if bad else 0


@memory.command()
@click.argument("reference", metavar="[JOB]", required=False)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The file: .tmx or .tsv.",
)
@_languages
@click.pass_obj
def export(
    context: Context, reference: str | None, target: Path, source_language: str | None, target_language: str | None
) -> None:
    """Write the imported units to a file, or the sentences of JOB with their translations.

    The file of a job is what a translator corrects, in a program for translators or a spreadsheet; `kvjobs memory
    import` reads it again. Of what models translated, the memory keeps no sources, so it is written by job.
    """
    from jobs.export.replaced_file import replaced_file
    from jobs.export.sentence_pairs import languages_of, sentence_pairs
    from jobs.store.imported_units import all_units
    from jobs.store.report.job_summary import find_job
    from jobs.units.unit_file import FORMATS, format_of_units, write_units

    file_format = format_of_units(target)
    if target.name.lower().endswith(".gz"):
        raise SpecError(f"{target.name}: units are written to {' or '.join(f'.{name}' for name in FORMATS)}, unpacked")
    with context.database() as database:
        units: Iterator[TranslationUnit]
        if reference is None:
            units = (
                unit
                for unit in all_units(database)
                if source_language in (None, unit.source_language) and target_language in (None, unit.target_language)
            )
            of_all = source_language
        else:
            with database.reading() as connection:
                job = find_job(connection, reference)
            languages = languages_of(job, source_language, target_language)
            units, of_all = sentence_pairs(database, job, languages), languages.source
        with replaced_file(target) as stream:
            number = write_units(units, file_format, of_all, stream.write)
    what = "the memory" if reference is None else f"job {job.job_id}"
    print_message(f"Wrote {counted(number, 'unit')} of {what} to {target}.")


@memory.command()
@output_options()
@click.pass_obj
def ls(context: Context, output: Output) -> None:
    """List what the memory holds: imported units by language and file, learned ones by model."""
    import dataclasses

    from jobs.store.imported_units import memory_parts

    with context.database() as database:
        parts = memory_parts(database)
    if output.is_table and not parts:
        print_message("The memory is empty; to add translations: kvjobs memory import FILE.tmx")
        return
    output.rows((dataclasses.asdict(part) for part in parts), COLUMNS, FIELDS)


@memory.command()
@click.option(
    "--older-than",
    "days",
    type=number_type(Real(0, 36_500)),
    metavar="DAYS",
    help="Delete units that were stored more than so many days ago.",
)
@click.option("--model", metavar="NAME", help="Delete what jobs of this model stored.")
@click.option("--file", metavar="NAME", help="With --origin imported: delete what was imported from this file.")
@click.option(
    "--origin",
    type=SuggestingChoice(["learned", "imported"]),
    default="learned",
    show_default=True,
    metavar="ORIGIN",
    help="Which units: learned (models translated them) or imported.",
)
@output_options()
@click.pass_obj
def prune(
    context: Context, output: Output, days: float | None, model: str | None, file: str | None, origin: str
) -> None:
    """Delete units of the memory. Results of jobs stay as they are.

    Learned units of an older version of kvjobs have neither model nor time, and count as the oldest.
    """
    from jobs.store.imported_units import prune_imported, prune_learned

    if days is None and model is None and file is None:
        raise click.UsageError("Say which: --older-than DAYS, --model NAME or --file NAME (--older-than 0: all).")
    if (model is not None and origin == "imported") or (file is not None and origin == "learned"):
        raise click.UsageError("--model is for learned units, --file for --origin imported.")
    with context.database() as database:
        if origin == "learned":
            deleted = prune_learned(database, days=days, model=model)
        else:
            deleted = prune_imported(database, days=days, file=file)
    print_message(f"Deleted {counted(deleted, f'{origin} unit')}.")
    output.record({"units": deleted}, lambda: None)


def _good(file: Path, languages: "UnitLanguages") -> "Iterator[TranslationUnit]":
    from jobs.units.translation_unit import TranslationUnit
    from jobs.units.unit_file import read_units

    return (unit for unit in read_units(file, languages) if isinstance(unit, TranslationUnit))

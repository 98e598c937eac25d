"""Imported units: the last import counts, a job finds those of its languages, and what is pruned is gone."""

import itertools

from sqlalchemy import update

from jobs.outcome import SegmentTranslation
from jobs.routing.language_pair import LanguagePair
from jobs.store.database import Database
from jobs.store.imported_units import (
    UNITS_AT_ONCE,
    all_units,
    import_units,
    memory_parts,
    prune_imported,
    prune_learned,
)
from jobs.store.memory import learn, recall
from jobs.store.schema.clock import db_time
from jobs.store.schema.lasting_tables import ImportedUnit
from jobs.units.translation_unit import TranslationUnit
from worker.stored_memory import StoredMemory


def unit(source: str, target: str, languages: tuple[str, str] = ("en", "de")) -> TranslationUnit:
    return TranslationUnit(source, target, *languages)


def recalled(database: Database, sources: list[str], source: str = "en", target: str = "de") -> dict[str, str]:
    return StoredMemory(database).recall_imported(sources, LanguagePair(source, target))


def test_of_two_units_with_one_source_the_one_imported_last_counts(database: Database) -> None:
    assert recalled(database, ["Rain."]) == {}
    import_units(database, [unit("Rain.", "falsch"), unit("Rain.", "Schauer."), unit("Sun.", "Sonne.")], "a.tmx")
    import_units(database, [unit("Rain.", "Regen.")], "b.tsv")

    assert recalled(database, ["Rain.", "Snow."]) == {"Rain.": "Regen."}
    assert [(part.file, part.units) for part in memory_parts(database)] == [
        ("a.tmx", 1),
        ("b.tsv", 1),
    ]  # Rain. is the second's


def test_a_job_gets_units_of_its_languages_however_they_are_written(database: Database) -> None:
    import_units(database, [unit("Rain.", "Regen.", ("en-GB", "deu_Latn"))], "a.tmx")

    assert recalled(database, ["Rain."], "en", "de") == {"Rain.": "Regen."}
    assert recalled(database, ["Rain."], "en", "fr") == recalled(database, ["Rain."], "de", "de") == {}


def test_a_unit_of_the_very_language_comes_before_a_newer_one_of_the_language_in_general(database: Database) -> None:
    import_units(database, [unit("Rain.", "sehr", ("en", "de-AT"))], "a.tmx")
    import_units(database, [unit("Rain.", "neuer", ("en", "de"))], "b.tmx")

    assert recalled(database, ["Rain."], "en", "de-AT") == {"Rain.": "sehr"}
    assert recalled(database, ["Rain."], "en", "de-CH") == {"Rain.": "neuer"}


def test_more_units_than_a_transaction_has_are_all_read_again(database: Database) -> None:
    number = 2 * UNITS_AT_ONCE + 1
    units = [
        unit(str(index), "x", pair)
        for index, pair in zip(range(number), itertools.cycle([("en", "de"), ("b", "c")]), strict=False)
    ]

    assert import_units(database, units, "a.tsv") == number
    assert sorted(all_units(database), key=lambda found: int(found.source)) == units
    assert len(recalled(database, [str(index) for index in range(number)])) == UNITS_AT_ONCE + 1


def test_learned_entries_are_pruned_by_model_and_age_and_those_without_a_time_are_the_oldest(
    database: Database,
) -> None:
    entry = SegmentTranslation(("x",), (0.0,), 0.0, 1, 1)
    with database.writing() as connection:
        learn(connection, {b"before": entry})
        learn(connection, {b"new": entry}, model="m", learned_at=connection.scalar(db_time().select()))
        learn(connection, {b"other": entry}, model="n", learned_at=connection.scalar(db_time(-86400 * 9).select()))

    assert [(part.model, part.units) for part in memory_parts(database) if part.model] == [("m", 1), ("n", 1)]
    assert prune_learned(database, days=10, model=None) == 1
    assert recall(database, [b"before", b"new", b"other"]).keys() == {b"new", b"other"}
    assert prune_learned(database, days=1, model="m") == 0
    assert prune_learned(database, days=None, model="m") == 1
    assert prune_learned(database, days=1, model=None) == 1


def test_imported_units_are_pruned_by_file_and_age(database: Database) -> None:
    import_units(database, [unit("a", "b")], "a.tsv")
    import_units(database, [unit("c", "d"), unit("e", "f")], "b.tsv")
    with database.writing() as connection:
        connection.execute(update(ImportedUnit).where(ImportedUnit.source == "c").values(imported_at=db_time(-86400)))

    assert prune_imported(database, days=0.5, file=None) == 1
    assert prune_imported(database, days=None, file="b.tsv") == 1
    assert [found.source for found in all_units(database)] == ["a"]

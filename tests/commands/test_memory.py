"""`kvjobs memory`: units in, units out, and what is wrong with a file."""

from pathlib import Path

from jobs.outcome import AlignedSegment, Translation
from jobs.store.database import Database
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line

UNITS = "source\ttarget\tsource_language\ttarget_language\nRain.\tRegen.\ten\tde\nSun.\tSonne.\ten\tde\n"


@ON_BOTH
def test_what_is_imported_is_listed_and_exported(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    (tmp_path / "units.tsv").write_text(UNITS)

    imported = kvjobs("memory", "import", tmp_path / "units.tsv")
    assert imported.exit_code == 0
    assert line_with(imported.err, "2 units", "en to de")
    assert line_with(kvjobs("memory", "ls").out, "imported", "en", "de", "units.tsv", "2")
    kvjobs("memory", "export", "-o", tmp_path / "units.tmx")
    again = kvjobs("memory", "import", tmp_path / "units.tmx", "--json").json
    assert again == {"units": 2, "num_rejected": 0, "rejected": []}
    kvjobs("memory", "export", "-o", tmp_path / "again.tsv", "--target-language", "de")
    assert sorted((tmp_path / "again.tsv").read_text().splitlines()) == sorted(UNITS.splitlines())


def test_bad_units_are_told_with_their_lines_and_the_others_imported(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "units.tsv").write_text(UNITS + "alone\n")

    found = kvjobs("memory", "import", tmp_path / "units.tsv")

    assert found.exit_code == 3
    assert line_with(found.err, "units.tsv", "line 4")
    assert line_with(found.err, "2 units", "1 rejected")


def test_of_a_broken_file_nothing_is_imported(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    broken = f'<tmx><header srclang="en"/><body>{unit}<'
    for name, text in (("units.tmx", broken), ("units.txt", "a\tb\n"), ("units.tsv", "a\tb\n"), ("units.tsv.gz", "a")):
        (tmp_path / name).write_text(text)
        refused = kvjobs("memory", "import", tmp_path / name)
        assert refused.exit_code == 2, name
        assert name in refused.err

    assert kvjobs("memory", "ls", "--json").json == []


@ON_BOTH
def test_the_sentences_of_a_job_are_written_once_each_with_the_languages_of_its_model(
    kvjobs: Kvjobs, add_job: AddJob, tmp_path: Path
) -> None:
    result = Translation(
        "雨。風。雨。",
        -1.0,
        3,
        0,
        5,
        5,
        segments=tuple(AlignedSegment(*at) for at in ((0, 5, 0, 2), (6, 11, 2, 4), (12, 17, 4, 6))),
    )
    add_job(Line("a", text="Rain. Wind. Rain.", result=result), Line("b", "ohne Grenzen", text="x"), name="j")

    assert line_with(kvjobs("memory", "export", "j", "-o", tmp_path / "j.tsv").err, "2 units")
    assert (tmp_path / "j.tsv").read_text().splitlines()[1:] == ["Rain.\t雨。\ten\tzh", "Wind.\t風。\ten\tzh"]


def test_a_job_that_does_not_translate_has_no_units(kvjobs: Kvjobs, add_job: AddJob, tmp_path: Path) -> None:
    add_job(task=Task.SCORE, options=ScoreOptions(), name="s")

    assert kvjobs("memory", "export", "s", "-o", tmp_path / "s.tsv").exit_code == 2
    assert kvjobs("memory", "export", "nobody", "-o", tmp_path / "s.tsv").exit_code == 5
    assert not (tmp_path / "s.tsv").exists()


@ON_BOTH
def test_pruning_says_what_is_to_go(kvjobs: Kvjobs, database: Database, tmp_path: Path) -> None:
    (tmp_path / "units.tsv").write_text(UNITS)
    kvjobs("memory", "import", tmp_path / "units.tsv")

    for wrong in ((), ("--file", "units.tsv"), ("--origin", "imported", "--model", "m")):
        assert kvjobs("memory", "prune", *wrong).exit_code == 2
    assert kvjobs("memory", "prune", "--older-than", 0, "--json").json == {"units": 0}
    assert kvjobs("memory", "prune", "--origin", "imported", "--file", "units.tsv", "--json").json == {"units": 2}

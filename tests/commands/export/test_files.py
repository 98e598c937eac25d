"""Files whose texts are translated come back as they were, with the translations in them."""

import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs.answers import Answers
from jobs.corpus.corpus import Corpus
from jobs.corpus.folder import CorpusFile
from jobs.corpus.translatable.reader import MAX_FILE_BYTES, UnitReader, UnitReading
from jobs.errors import CorpusError, SpecError
from jobs.outcome import Failed
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.job_files import content_of, count_files
from jobs.store.queue import leases
from jobs.store.queue.record import record
from jobs.submission.submit import submit
from jobs.system.failpoints import failpoint
from jobs.tasks.kind import PayloadKind
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.rows import translated
from tests.store.leasing import LEASE_S

SPEC = JobSpec(task=Task.TRANSLATE, model="opus-mt-en-de", model_revision="r1", options=TranslateOptions())
MANUAL = {
    "a.properties": b"# says hello\nhello=Hello\n\nbye : Good\\\n  bye\n",
    "ui/b.properties": b"title=Title\r\nempty=\r\n",
    "ui/none.properties": b"# nothing\n",
    "img/logo.png": b"\x89PNG\r\n\x00",
}
Engine = Callable[[str], str | None]  # None: the document fails


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    return written(tmp_path / "manual", MANUAL)


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sent(database: Database, path: Path | str, **how: Any) -> int:
    return submit(database, Corpus(path=path, **how), SPEC, spool=Path("spool")).job_id


def finish(database: Database, engine: Engine) -> None:
    """Let an engine answer each document that waits."""
    while (work := leases.lease(database, 1, 0, LEASE_S)) is not None:
        for index, batch in enumerate(work.batches):
            texts = [engine(document.text) for document in batch]
            answers = [Failed("engine-error", "it broke") if text is None else translated(text) for text in texts]
            record(database, work, index, Answers(answers), lease_s=LEASE_S)


@ON_BOTH
def test_an_engine_that_returns_its_input_gives_equal_bytes(kvjobs: Kvjobs, database: Database, manual: Path) -> None:
    job = sent(database, manual)
    finish(database, lambda text: text)

    result = kvjobs("export", job, "-o", "out.de")

    assert (result.exit_code, read(Path("out.de"))) == (0, MANUAL)


def test_each_unit_is_a_document_whose_id_names_file_and_unit(kvjobs: Kvjobs, database: Database, manual: Path) -> None:
    job = sent(database, manual)
    finish(database, str.upper)

    lines = kvjobs("export", job, "--where", "file = 'a.properties'", "--with", "text").out.splitlines()

    assert [line.partition(',"status"')[0] for line in lines] == [
        '{"id":"a.properties#hello"',
        '{"id":"a.properties#bye"',
    ]
    assert '"context":"says hello"' in lines[0]


def test_translations_stand_in_their_places_though_the_folder_is_gone(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    job = sent(database, manual)
    finish(database, str.upper)
    manual.rename("elsewhere")

    result = kvjobs("export", job, "-o", "out")

    found = read(Path("out"))
    assert found.pop("a.properties") == b"# says hello\nhello=HELLO\n\nbye : GOODBYE\n"
    assert found.pop("ui/b.properties") == b"title=TITLE\r\nempty=\r\n"
    assert found == {"ui/none.properties": MANUAL["ui/none.properties"]}, "nobody has the picture"
    assert "img/logo.png" in result.err


def test_a_unit_without_a_translation_keeps_its_text_and_the_command_says_how_many(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    job = sent(database, manual)
    finish(database, lambda text: None if text == "Hello" else text.upper())

    result = kvjobs("export", job, "-o", "out")

    assert (Path("out") / "a.properties").read_bytes() == b"# says hello\nhello=Hello\n\nbye : GOODBYE\n"
    assert [line for line in result.err.splitlines() if "a.properties" in line and "1 unit of 2 (1 failed)" in line]
    assert "b.properties" not in result.err


@ON_BOTH
def test_a_broken_file_is_a_rejected_document_and_the_others_go_on(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    broken = b"x=\\u12"
    written(manual, {"ui/bad.properties": broken})
    job = sent(database, manual)
    finish(database, str.upper)

    [line] = kvjobs("export", job, "--only", "failed", "--format", "csv", "--where", "status = 'rejected'").out.split(
        "\n", 2
    )[1:2]
    assert line.startswith("ui/bad.properties,rejected")
    kvjobs("export", job, "-o", "out")
    assert read(Path("out"))["ui/bad.properties"] == broken
    shown = kvjobs("show", job).out.splitlines()
    assert next(line for line in shown if "ui/bad.properties" in line).startswith("    ui/bad.properties")
    assert read(Path("out"))["ui/b.properties"].startswith(b"title=TITLE")


@ON_BOTH
def test_a_file_of_another_kind_than_its_suffix_says_is_copied_and_the_command_says_why(
    kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    files = {
        "pom.xml": b"<project>&broken;",
        "res/strings.xml": b"<resources><string name='a'>One</string></resources>",
    }
    job = sent(database, written(tmp_path / "app", files))
    finish(database, str.upper)

    result = kvjobs("export", job, "-o", "out.de")

    assert result.exit_code == 0
    assert read(Path("out.de")) == files | {"res/strings.xml": files["res/strings.xml"].replace(b"One", b"ONE")}
    assert "pom.xml is copied as it is: " in result.err
    with pytest.raises(CorpusError, match=r"no text to translate in it .of files of XML"):
        sent(database, tmp_path / "app/pom.xml")


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path: Path) -> None:
    lines = written(tmp_path / "lines", {"a.yaml": b"a: One\n", "b.yaml": b""})
    with (lines / "b.yaml").open("wb") as file:
        file.truncate(200 << 20)  # one line, which takes no place on the disk
    files = [CorpusFile(lines / name, name) for name in ("a.yaml", "b.yaml")]
    tracemalloc.start()
    records = list(UnitReader(str(lines), files, UnitReading(), 1 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [type(record).__name__ for record in records] == ["Document", "Rejected"]
    assert "at most" in records[1].reason
    assert peak < 2.5 * MAX_FILE_BYTES


def test_one_file_comes_back_as_one_file(kvjobs: Kvjobs, database: Database, manual: Path) -> None:
    job = sent(database, manual / "a.properties")
    finish(database, str.upper)

    assert kvjobs("export", job, "-o", "a.de.properties").exit_code == 0
    assert Path("a.de.properties").read_bytes() == b"# says hello\nhello=HELLO\n\nbye : GOODBYE\n"
    assert kvjobs("export", job, "-o", manual / "a.properties").exit_code == 2, "the corpus itself"
    assert kvjobs("export", job, "-o", "a.po").exit_code == 2, "another format"
    assert kvjobs("export", job, "-o", "a.jsonl").exit_code == 0
    assert len(Path("a.jsonl").read_bytes().splitlines()) == 2


def test_a_file_that_nobody_has_any_more_is_not_written(
    kvjobs: Kvjobs, database: Database, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.store.job_files.MOST_STORED", 1)
    job = sent(database, manual / "a.properties")
    finish(database, str.upper)

    assert kvjobs("export", job, "-o", "same.properties").exit_code == 0, "it is read where it was"
    assert b"HELLO" in Path("same.properties").read_bytes()
    (manual / "a.properties").write_bytes(b"hello=Changed")
    assert kvjobs("export", job, "-o", "changed.properties").exit_code == 2
    assert not Path("changed.properties").exists()


@ON_BOTH
def test_a_pruned_job_leaves_no_file(database: Database, manual: Path) -> None:
    kept = sent(database, manual / "ui")
    gone = sent(database, manual)
    finish(database, str.upper)
    with database.reading() as connection:
        num_kept, num_gone = count_files(connection, kept), count_files(connection, gone)

    prune_jobs(database, [gone])

    with database.reading() as connection:
        assert (count_files(connection, kept), count_files(connection, gone)) == (num_kept, 0)
        assert content_of(connection, kept, 0) == MANUAL["ui/b.properties"]
    assert (num_kept, num_gone) == (2, 4)


def test_the_files_of_a_folder_are_an_archive_where_one_is_named(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    job = sent(database, manual)
    finish(database, lambda text: text)

    kvjobs("export", job, "-o", "out.zip")

    with zipfile.ZipFile("out.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == MANUAL


@pytest.mark.parametrize("folder", ["manual", "manual/ui", "manual/new", "manual/a.properties"])
def test_the_corpus_is_not_written_to(kvjobs: Kvjobs, database: Database, manual: Path, folder: str) -> None:
    job = sent(database, manual)
    finish(database, str.upper)

    assert kvjobs("export", job, "-o", folder).exit_code == 2
    assert read(manual) == MANUAL


def test_links_are_neither_read_nor_followed(kvjobs: Kvjobs, database: Database, manual: Path, tmp_path: Path) -> None:
    written(tmp_path / "private", {"secret.properties": b"key=secret", "secret.png": b"secret"})
    for name in ("secret.properties", "secret.png"):
        (manual / name).symlink_to(tmp_path / "private" / name)
    (manual / "private").symlink_to(tmp_path / "private")
    job = sent(database, manual)
    finish(database, lambda text: text)
    Path("out").mkdir()

    assert kvjobs("export", job, "-o", "out").exit_code == 0
    assert read(Path("out")) == MANUAL

    (Path("out") / "ui" / "b.properties").unlink()
    (Path("out") / "ui" / "none.properties").unlink()
    (Path("out") / "ui").rmdir()
    (Path("out") / "ui").symlink_to(tmp_path / "private")
    assert kvjobs("export", job, "-o", "out").exit_code == 2
    assert not (tmp_path / "private" / "b.properties").exists()


def test_the_same_files_are_the_same_job_and_other_names_or_bytes_are_another(
    database: Database, manual: Path, tmp_path: Path
) -> None:
    job = sent(database, manual)

    assert sent(database, written(tmp_path / "copy", MANUAL)) == job
    assert sent(database, written(tmp_path / "bytes", {**MANUAL, "img/logo.png": b""})) != job
    renamed = {("z.properties" if name == "a.properties" else name): content for name, content in MANUAL.items()}
    assert sent(database, written(tmp_path / "names", renamed)) != job


@ON_BOTH
def test_a_submit_that_was_killed_is_continued_with_its_files(
    kvjobs: Kvjobs, database: Database, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(name: str) -> None:
        if name == "before-ingest-finish":
            raise KeyboardInterrupt
        failpoint(name)

    with monkeypatch.context() as patch:
        patch.setattr("jobs.submission.submit.failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            sent(database, manual)

    job = sent(database, manual)
    finish(database, lambda text: text)
    kvjobs("export", job, "-o", "out")
    assert read(Path("out")) == MANUAL


def test_a_folder_of_documents_stays_one_and_one_of_both_is_refused(tmp_path: Path) -> None:
    documents = written(tmp_path / "data", {"part.jsonl": b"{}", "README.md": b"# About", "info.json": b"{}"})
    assert not Corpus(path=documents).is_translatable

    both = written(tmp_path / "both", {"part.jsonl": b"{}", "a.properties": b"a=One"})
    with pytest.raises(CorpusError, match="--format files"):
        Corpus(path=both)
    assert Corpus(path=both, format="files").is_translatable


@pytest.mark.parametrize("name", ["bad\nname.properties", b"bad\xff.properties".decode(errors="surrogateescape")])
def test_a_name_that_no_row_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="rename"):
        Corpus(path=written(tmp_path / "odd", {name: b"a=One"}))


def test_other_tasks_compute_the_units_and_write_no_files(kvjobs: Kvjobs, database: Database, manual: Path) -> None:
    scored = JobSpec(task=Task.SCORE, model="tiny", model_revision="r1", options=ScoreOptions())
    submitted = submit(database, Corpus(path=manual), scored, spool=Path("spool"))

    assert submitted.documents == 3
    assert kvjobs("export", submitted.job_id, "--format", "files", "-o", "out").exit_code == 2
    with pytest.raises(SpecError, match="candidates"):
        Corpus(path=manual, payload_kind=PayloadKind.CANDIDATES)


@ON_BOTH
def test_a_worker_is_told_what_in_a_text_is_no_word(database: Database, tmp_path: Path) -> None:
    sent(database, written(tmp_path / "site", {"a.properties": b"a=One", "b.html": b"<p>Some <b>bold</b> text.</p>"}))

    work = leases.lease(database, 1, 0, LEASE_S)

    assert work is not None
    assert [document.own_options for batch in work.batches for document in batch] == [None, '{"markup":"html"}']


@pytest.mark.parametrize(("name", "target"), [("", "job-1/"), ("a.properties", "job-1.properties")])
def test_the_next_command_that_show_names_writes_the_files(
    kvjobs: Kvjobs, database: Database, manual: Path, name: str, target: str
) -> None:
    sent(database, manual / name)
    finish(database, str.upper)
    assert f"Next: kvjobs export 1 -o {target}\n" in kvjobs("show", "1").out
    kvjobs("export", "1", "-o", target)
    written = Path(target, "" if name else "a.properties")
    assert b"hello=HELLO\n" in written.read_bytes()


def test_what_was_translated_before_names_the_command_that_writes_the_files(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    kvjobs("submit", manual)
    finish(database, str.upper)
    assert "Results: kvjobs export 1 -o job-1/\n" in kvjobs("submit", manual).err


def test_the_next_command_of_a_chain_of_files_writes_the_files(
    kvjobs: Kvjobs, database: Database, manual: Path
) -> None:
    kvjobs("submit", manual, "--then", "filter length(text) > 1")
    finish(database, str.upper)

    assert "Next: kvjobs export 1 -o job-1/\n" in kvjobs("show", "2").out
    assert kvjobs("export", "1", "-o", "job-1/").exit_code == 0
    assert b"hello=HELLO\n" in Path("job-1/a.properties").read_bytes()

"""The marker of each layer, and fixtures: databases with jobs in them, `kvjobs` called in this process."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test

from jobs.settings import OF_OTHERS
from jobs.store.database import Database
from jobs.store.schema import migrate
from jobs.store.schema.states import DocumentStatus
from tests import databases
from tests.command_line import Kvjobs, Result
from tests.databases import BOTH, BY_LAYER, empty, make_tables, migrated, own_database, without_fsync
from tests.layers import layer_of, rules_of
from tests.repetition import LONG, times
from tests.rows import AddJob, AddWaitingJob, Line, insert_job, insert_waiting_job
from tests.skips import count_as_failure

# Without cached bytecode a process takes 0.3 s to compile kvjobs, and the tests start about three hundred processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# 4,966 collected tests are 402,000 objects, which the garbage collector would look through again and again.
gc.set_threshold(50_000, 10, 10)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` of all tests: one process more than there are cores, since a fifth of their time they wait for another
    process. None: as xdist chooses."""
    is_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return len(os.sched_getaffinity(0)) + 1 if is_all else None


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its layer, the folder below tests/ (`pytest -m "unit or store"`), and with `long` if it
    repeats. What the databases take turns in runs on the other one in the long form."""
    other = {*databases.on_the_other_database(items)}
    for item in other:
        item.add_marker("long")
    if other and not LONG:
        config.hook.pytest_deselected(items=[*other])
        items[:] = [item for item in items if item not in other]
    for item in items:
        item.add_marker(layer_of(item.path))
        if is_hypothesis_test(getattr(item, "obj", None)):  # the plugin marks it later
            item.add_marker("long")
        if LONG and item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(times(60)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `database` on the databases of its layer, unless a mark says which (ON_BOTH)."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "database" in metafunc.fixturenames and not any("database" in mark.args[0] for mark in marks):
        names = BY_LAYER.get(layer_of(metafunc.definition.path), BOTH)
        metafunc.parametrize("database", names, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with rules_of(layer_of(item.path)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with rules_of(layer_of(item.path)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if nextitem is None:  # with the last test end the fixtures of the whole session, which serve all layers
        return (yield)
    with rules_of(layer_of(item.path)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    count_as_failure(report, may_skip=item.get_closest_marker("may_skip") is not None)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[pytest.CollectReport]:
    report = yield
    count_as_failure(report, may_skip=False)
    return report


@pytest.fixture(scope="module", autouse=True)
def no_trial_of_stand_ins(request: pytest.FixtureRequest) -> Iterator[None]:
    """To add a tiny model takes 0.4 s, and 0.25 s of that its trial of stand-ins, which finds none in a model without
    training (tests/models/model_tools/add/test_stand_in_trial.py)."""
    with pytest.MonkeyPatch.context() as patch:
        if layer_of(request.path) in ("models", "commands"):
            from worker.text.marks.known_words import NO_STAND_INS

            patch.setattr("worker.model_tools.add.add.try_stand_ins", lambda _: NO_STAND_INS)
        yield


@pytest.fixture
def parquet_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet files are read in this process: for layers that may start none."""
    from tests.parquet_files import rows_of_this_process

    monkeypatch.setattr("jobs.corpus.parquet.reader.open_rows", rows_of_this_process)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder for the test, which also runs there; settings of the machine have no effect."""
    home = tmp_path / "home"
    home.mkdir()
    for name in os.environ:
        if name.startswith("KVJOBS_") or name in OF_OTHERS.values():
            monkeypatch.delenv(name)
    monkeypatch.setenv("KVJOBS_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables, made once per session: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "kvjobs.db"
    migrated(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Database]:
    """A PostgreSQL database with all tables, made once per session."""
    with own_database() as url:
        database = Database.open(migrated(url))
        yield database
        database.close()


@pytest.fixture
def sqlite(home: Path, empty_database: Path) -> Iterator[Database]:
    """The SQLite database that the command line uses by default, without rows."""
    shutil.copy(empty_database, home / "kvjobs.db")
    database = without_fsync(Database.connect(f"sqlite:///{home / 'kvjobs.db'}"))
    yield database
    database.close()


@pytest.fixture
def database(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database that the command line uses, without rows; of each kind in turn (`pytest_generate_tests`)."""
    database = request.getfixturevalue(request.param)
    if request.param == "postgresql":
        monkeypatch.setenv("KVJOBS_DATABASE", database.engine.url.render_as_string(hide_password=False))
    yield database
    if request.param == "postgresql":
        empty(database)


@pytest.fixture
def kvjobs(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Kvjobs:
    """A function that runs `kvjobs` in this process: kvjobs("ls", "--json") -> Result. It makes the tables of a new
    database as the migrations have made them, once; tests of `kvjobs db upgrade` and of the store run those."""
    from jobs.cli.main import run

    monkeypatch.setattr(
        migrate, "upgrade", lambda engine: make_tables(engine, like=request.getfixturevalue("empty_database"))
    )

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        exit_code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(exit_code, out, err)

    return call


@pytest.fixture
def add_job(database: Database) -> AddJob:
    """A function that adds a job of these lines, with consistent counters: running if a line waits, else done."""
    return lambda *lines, **kwargs: insert_job(database, lines, **kwargs)


@pytest.fixture
def add_waiting_job(database: Database) -> AddWaitingJob:
    """A function that adds a running job: `documents` documents of 10 estimated tokens, in shards of `per_shard`."""
    return lambda *args, **kwargs: insert_waiting_job(database, *args, **kwargs)


@pytest.fixture
def finished_job(add_job: AddJob) -> int:
    """The number of a job with three documents, all translated."""
    return add_job(*(Line(f"d{number}", f"译文{number}") for number in range(3)), name="nightly")


@pytest.fixture
def mixed_job(add_job: AddJob) -> int:
    """The number of a job that is done, with a document of every outcome."""
    return add_job(
        Line("good", "好"),
        Line("bad", status=DocumentStatus.FAILED, error=("engine-error", "it broke")),
        Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "line 3 is not JSON")),
        Line("poison", status=DocumentStatus.QUARANTINED, error=("killed", "two workers died")),
        Line("late", status=DocumentStatus.CANCELLED),
        name="mixed",
    )


@pytest.fixture
def running_job(add_job: AddJob) -> int:
    """The number of a running job: two documents translated, one failed, one waiting."""
    failed = Line("c", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))
    return add_job(Line("a", "甲"), Line("b", "乙"), failed, Line("d"), name="running")

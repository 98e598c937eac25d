"""A dashboard over real jobs, and Debian's Chromium to look at it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.cli.main import run
from tests.made_once import folder_of_run, made_once
from tests.places import CHECKOUT, EXAMPLES

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install '.[browser]')")

CHROMIUM = os.environ.get("KVJOBS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = (
    "<script>window.hacked = 1</script> fog over Alden",
    "<img src=x onerror='window.hacked = 2'> \u202egnp.exe",
    "</script><script>window.hacked = 3</script>{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("http://elsewhere.example") \x1b[31mred\x1b[0m \x07',
    "' OR 1=1; DROP TABLE jobs; --",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of a process also waits for the jobs that all look at."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(300))


@dataclass(frozen=True)
class Dashboard:
    """A running `kvjobs web`, and the jobs that it shows."""

    address: str
    home: Path
    jobs: dict[str, int]  # by name

    def kvjobs(self, *arguments: object) -> str:
        """Run `kvjobs` on the same database; its standard output."""
        return _kvjobs(self.home, *arguments)


def _kvjobs(home: Path, *arguments: object) -> str:
    command = [sys.executable, "-P", "-m", "jobs.cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=CHECKOUT, env=_environment(home), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    return {**kept, "KVJOBS_HOME": str(home), "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Dashboard]:
    """One job of each task, one with failures and hostile texts, one that waits; what a cache saves; `kvjobs web`."""
    first = made_once(folder_of_run(tmp_path_factory, worker_id) / "first-home", _fill)
    home = tmp_path_factory.getbasetemp() / "home"
    shutil.copytree(first, home)
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "web", "--port", "0"]
    process = subprocess.Popen(command, cwd=CHECKOUT, env=_environment(home), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        assert found, told + process.stderr.read()
        yield Dashboard(found.group(), home, json.loads((home / "jobs.json").read_text(encoding="utf-8")))
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stderr.close()


def _fill(home: Path) -> None:
    """Process the jobs in this home, and write their numbers by name."""
    with pytest.MonkeyPatch.context() as environment:
        for name in os.environ.keys() - _environment(home).keys():
            environment.delenv(name)
        environment.setenv("KVJOBS_HOME", str(home))
        jobs = _make_jobs(home)
    (home / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")


def _make_jobs(home: Path) -> dict[str, int]:
    """Submit the jobs in this process (0.1 s after the first, a process 0.9 s), and process them in one worker."""
    hostile = home / "hostile.jsonl"
    lines = [{"id": text, "text": text, text: text} for text in HOSTILE]
    hostile.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "not json\n", encoding="utf-8")
    submits: dict[str, tuple[object, ...]] = {
        "translation": (EXAMPLES / "bulletins.jsonl",),
        "scores": (EXAMPLES / "mixed.jsonl", "--task", "score", "--token-scores"),
        "ranking": (EXAMPLES / "retrieval", "--task", "rerank", "--run", EXAMPLES / "retrieval/bm25.run"),
        "hostile": (hostile, "--alignments"),
    }
    for name, arguments in submits.items():
        assert run(["submit", *map(str, arguments), "--name", name]) == 0
    _kvjobs(home, "worker", "--drain")
    _kvjobs(home, "bench", "cache", "--model", "demo-lm", "--tokens", "4,24", "--batch-size", 2, "--repeats", 1)
    for name in submits:
        assert run(["wait", name]) == (3 if name == "hostile" else 0)
    assert run(["submit", str(EXAMPLES / "bulletins.jsonl"), "--again", "--name", "waiting"]) == 0
    return {name: number for number, name in enumerate([*submits, "waiting"], 1)}


@pytest.fixture(scope="session")
def browser() -> Iterator["playwright.Browser"]:
    """Chromium without a window."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        # Root has no sandbox; the pages are our own.
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


Visit = Callable[..., "Visited"]


class Visited:
    """A page as a visitor has it; `problems` are the errors in its console and the dialogs that opened."""

    def __init__(self, page: "playwright.Page", address: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._address = address
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda said: self.problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def go(self, path: str) -> "Visited":
        # What the page before says at its end, such as of a request that is interrupted, is no problem of this page.
        self.page.once("framenavigated", lambda _: self.problems.clear())
        answer = self.page.goto(self._address + path)
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return self


@pytest.fixture
def visit(browser: "playwright.Browser", dashboard: Dashboard) -> Iterator[Visit]:
    """Open a page of the dashboard in a new window, for tests that act."""
    contexts = []

    def open_page(path: str) -> Visited:
        context = browser.new_context(viewport={"width": 1600, "height": 900}, color_scheme="light")
        contexts.append(context)
        return Visited(context.new_page(), dashboard.address).go(path.format(**dashboard.jobs))

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def look(browser: "playwright.Browser", dashboard: Dashboard) -> Iterator[Visit]:
    """Open a page of the dashboard in the window of the test before, for tests that only look. It takes 0.2 s of a
    core, a new window 1 s."""
    windows: dict[bool, Visited] = {}  # with scripts, without

    def open_page(path: str, *, width: int = 1600, scheme: str = "light", script: bool = True) -> Visited:
        if script not in windows:
            page = browser.new_context(java_script_enabled=script).new_page()
            windows[script] = Visited(page, dashboard.address)
        window = windows[script]
        window.page.set_viewport_size({"width": width, "height": 900})
        window.page.emulate_media(color_scheme=scheme)
        return window.go(path.format(**dashboard.jobs))

    yield open_page
    for window in windows.values():
        window.page.context.close()

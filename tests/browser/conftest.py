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

from tests.places import CHECKOUT

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install '.[browser]')")

CHROMIUM = os.environ.get("KVJOBS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
EXAMPLES = CHECKOUT / "examples"
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


def _kvjobs(home: Path, *arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-P", "-m", "jobs.cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=CHECKOUT, env=_environment(home), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    return {**kept, "KVJOBS_HOME": str(home), "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """One job of each task, one with failures and hostile texts, one that waits; and `kvjobs web`."""
    home = tmp_path_factory.mktemp("home")
    hostile = home / "hostile.jsonl"
    lines = [{"id": text, "text": text, text: text} for text in HOSTILE]
    hostile.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "not json\n", encoding="utf-8")
    submits: dict[str, tuple[object, ...]] = {
        "translation": (EXAMPLES / "bulletins.jsonl", "--wait"),
        "scores": (EXAMPLES / "mixed.jsonl", "--task", "score", "--token-scores", "--wait"),
        "ranking": (*(EXAMPLES / "retrieval", "--task", "rerank", "--run", EXAMPLES / "retrieval/bm25.run", "--wait"),),
        "hostile": (hostile, "--wait"),
        "waiting": (EXAMPLES / "bulletins.jsonl", "--again"),
    }
    jobs = {}
    for number, (name, arguments) in enumerate(submits.items(), 1):
        _kvjobs(home, "submit", *arguments, "--name", name, code=3 if name == "hostile" else 0)
        jobs[name] = number
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "web", "--port", "0"]
    process = subprocess.Popen(command, cwd=CHECKOUT, env=_environment(home), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        assert found, told + process.stderr.read()
        yield Dashboard(found.group(), home, jobs)
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stderr.close()


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
        answer = self.page.goto(self._address + path)
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return self


@pytest.fixture
def visit(browser: "playwright.Browser", dashboard: Dashboard) -> Iterator[Visit]:
    """Open a page of the dashboard in a new window."""
    contexts = []

    def open_page(path: str, *, width: int = 1600, scheme: str = "light", script: bool = True) -> Visited:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        return Visited(context.new_page(), dashboard.address).go(path.format(**dashboard.jobs))

    yield open_page
    for context in contexts:
        context.close()

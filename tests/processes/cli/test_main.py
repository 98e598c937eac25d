"""Which modules `kvjobs` loads when it starts, and what it does with closed streams and old locales."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import main
from jobs.cli.main import COMMANDS

REPOSITORY = Path(main.__file__).parents[2]
pytestmark = pytest.mark.usefixtures("sqlite")  # making a database takes a second

HEAVY = (
    *("sqlalchemy", "celery", "kombu", "redis", "rich", "onnxruntime", "numpy", "alembic", "orjson", "platformdirs"),
    *("worker", "jobs.settings"),
)


# A command may load settings and JSON, which the bare help may not.
HEAVY_FOR_A_COMMAND = (
    *("sqlalchemy", "celery", "kombu", "redis", "rich", "onnxruntime", "numpy", "alembic"),
    *("zstandard", "onnx", "tokenizers", "psycopg", "asyncio"),
)


def python(code: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_help_loads_no_heavy_module() -> None:
    code = f"""
import sys
from jobs.cli.main import run
assert run(["--help"]) == 0
print("LOADED", [name for name in {HEAVY} if name in sys.modules])
"""
    assert "LOADED []" in python(code).stdout


def test_the_help_of_no_command_loads_a_database_a_broker_or_a_model() -> None:
    """All helps run in one process, which at the end has every module that any of them loads."""
    code = f"""
import sys
import click
from jobs.cli.main import COMMANDS, load_command, run

def helps(path, command):
    assert run([*path, "--help"]) == 0
    for name, part in getattr(command, "commands", {{}}).items():
        helps([*path, name], part)

for name in COMMANDS:
    helps([name], load_command(name))
print("LOADED", [name for name in {HEAVY_FOR_A_COMMAND} if name in sys.modules])
"""
    done = python(code)
    assert "LOADED []" in done.stdout, done.stderr
    assert done.stdout.count("Usage: ") > len(COMMANDS)


def test_no_command_of_jobs_loads_a_model(home: Path) -> None:
    """All commands run in one process."""
    code = """
import sys
from jobs.cli.main import run
for arguments in ["export", "--help"], ["query", "--help"], ["ls"], ["show", "1"], ["doctor"]:
    run(arguments)
    print(arguments, "loaded", [name for name in ("onnxruntime", "numpy", "sentencepiece") if name in sys.modules])
"""
    assert python(code).stdout.count(" loaded []\n") == 5


@pytest.mark.parametrize(
    ("call", "exit_code", "says"),
    [
        (
            "config --json >&-",
            1,
            '{"error": {"code": "operational", "message": "cannot write to standard output (it is closed); redirect it',
        ),
        (
            "--help >&- <&-",
            1,
            "Error: cannot write to standard output (it is closed); redirect it to a file or a program",
        ),
        ("--version >/dev/full", 1, "Error: cannot write to standard output (No space left on device)"),
        # Larger than the buffer, so that it is written before the end.
        ("submit --help >&-", 1, "Error: cannot write to standard output (it is closed)"),
        ("submit --help >/dev/full", 1, "Error: cannot write to standard output (No space left on device)"),
        ("ls >&- <&-", 0, "There is no job yet"),
        ("submit - --model demo-en-zh <&-", 2, "Error: there is no standard input: it is closed"),
        ("query - <&-", 2, "Error: there is no standard input: it is closed"),
        ("ls 2>&-", 0, ""),
        ("--help | true", 0, ""),
    ],
)
def test_a_closed_stream_is_reported_with_at_most_one_sentence(
    home: Path, call: str, exit_code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    shell = f"{sys.executable} -m jobs.cli.main {call}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY
    )

    assert done.returncode == exit_code
    assert says in done.stderr
    assert done.stderr.count("\n") == bool(says)


def test_output_is_buffered_even_if_the_environment_disables_it(home: Path) -> None:
    """An unbuffered write may be partial, and a full disk would not be noticed at the end."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m jobs.cli.main --help >/dev/full"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )

    assert done.returncode == 1
    assert done.stderr.startswith("Error: cannot write to standard output (No space left on device); redirect it to ")


def test_a_closed_pipe_is_not_an_error(home: Path) -> None:
    """`kvjobs query ... | head -1` closes the pipe."""
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) select i from n"
    code = "import sys; from jobs.cli.main import main; sys.argv = ['kvjobs', *sys.argv[1:]]; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "query", numbers, "--csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr

    assert process.stdout.readline() == "i\n"
    process.stdout.close()

    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 0


def test_an_old_locale_does_not_break_the_output(home: Path) -> None:
    code = "import sys; from jobs.cli.main import main; sys.argv = ['kvjobs', 'query', \"select 'é译' as x\"]; main()"

    result = python(code, encoding="latin-1", env={"PYTHONIOENCODING": "latin-1", "KVJOBS_HOME": str(home), "PATH": ""})

    assert (result.returncode, result.stdout) == (0, "x\né\\u8bd1\n")

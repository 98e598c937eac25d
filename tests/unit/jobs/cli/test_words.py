"""What the help says of tasks and values."""

import json
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jobs.cli.choice import SuggestingChoice
from jobs.cli.commands import ls
from jobs.cli.main import COMMANDS, cli
from jobs.cli.render.layout import fit_table
from jobs.tasks.kinds import every_task

ROOT = Path(__file__).parents[4]


def test_help_and_package_name_every_task() -> None:
    tasks = every_task("and", lambda task: task.do)

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["description"].startswith(tasks.capitalize())
    assert str(cli.help).startswith(tasks.capitalize())
    assert COMMANDS["submit"].help == f"Submit CORPUS to be {every_task('or', lambda task: task.done)}."


@pytest.mark.parametrize(
    ("value", "says"), [("tranlate", "did you mean translate?"), ("SCROE", "did you mean score?"), ("x", "one of")]
)
def test_a_value_that_is_no_choice_gets_the_nearest_one(value: str, says: str) -> None:
    command = click.Command("c", params=[click.Option(["--task"], type=SuggestingChoice(["translate", "score"]))])

    assert says in CliRunner().invoke(command, ["--task", value]).output


def test_80_columns_of_ls_have_task_and_model_before_tokens() -> None:
    cells = [
        ["17", "nightly", "running", "12.3 %", "60", "7", "0", "6,553", "4 min 05 s", "translate", "opus-mt-en-zh"]
    ]
    shown = fit_table([[*cells[0], "normal", "2026-01-01 10:00:00"]], ls.COLUMNS, 80)

    assert not {"TASK", "MODEL"} & set(shown.left_out)
    assert {"TOKENS", "PRIORITY"} <= {column.title for column in ls.COLUMNS}


@pytest.mark.parametrize("name", ["bulletins.jsonl", "mixed.jsonl"])
def test_the_examples_have_the_field_of_the_documented_commands(name: str) -> None:
    lines = (ROOT / "examples" / name).read_text().splitlines()

    assert {json.loads(line)["lang"] for line in lines} == {"en"}

"""The entry point: it loads commands only when needed, and it alone turns errors into messages and exit codes."""

import errno
import json

import click
import pytest

from jobs.cli import main
from jobs.cli.main import COMMANDS, Entry, explain, load_command, run
from jobs.cli.render.error_message import HINTS
from jobs.cli.render.messages import MessageFormat, messages_as, print_message
from jobs.errors import (
    CorpusError,
    KvjobsError,
    ModelError,
    NotFoundError,
    SpecError,
    StaleLease,
    Stopped,
    StoreError,
    TransientError,
)
from tests.command_line import Kvjobs


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_has_the_name_and_help_of_each_command(name: str) -> None:
    command = load_command(name)

    assert command.get_short_help_str(limit=1000) == COMMANDS[name].help
    assert command.name == name


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (KvjobsError("sentence"), 1),
        (StoreError("sentence"), 1),
        (TransientError("sentence"), 1),
        (StaleLease("sentence"), 1),
        (SpecError("sentence"), 2),
        (ModelError("sentence"), 2),
        (NotFoundError("sentence"), 5),
        (Stopped("sentence"), 130),
        (OSError(errno.ENOSPC, "sentence"), 1),
    ],
)
def test_an_error_becomes_one_sentence_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, exit_code: int
) -> None:
    raising(monkeypatch, error)

    assert run(["ls"]) == exit_code
    assert capsys.readouterr() == ("", "Error: sentence\n")


@pytest.mark.parametrize(
    ("error", "exit_code", "code", "message"),
    [
        (SpecError("kvjobs a is for b"), 2, "refused", "kvjobs a is for b"),
        (SpecError("a is 7"), 2, "refused", "a is 7"),
        (CorpusError("line 3"), 2, "corpus", "line 3"),
        (ModelError("no graph"), 2, "model", "no graph"),
        (NotFoundError("there is no job"), 5, "not_found", "there is no job"),
        (TransientError("locked"), 1, "unavailable", "locked"),
        (OSError(errno.ENOSPC, "full"), 1, "operational", "full"),
        (KeyboardInterrupt(), 130, "interrupted", "interrupted"),
        (click.UsageError("no such option"), 2, "usage", "no such option"),
        (SpecError("\x1b[2J \u202e 'é'"), 2, "refused", "\\x1b[2J \\u202e 'é'"),
    ],
)
def test_with_json_an_error_is_an_object_on_standard_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    exit_code: int,
    code: str,
    message: str,
) -> None:
    hint = HINTS[code].format(command="kvjobs ls")

    assert json_error(monkeypatch, capsys, error) == (exit_code, {"code": code, "message": message, "hint": hint})


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (SpecError("a is 7; give 1"), "give 1"),
        (SpecError("c is missing: pip install c"), "pip install c"),
        (KeyboardInterrupt("On: kvjobs watch 3"), "kvjobs watch 3"),
    ],
)
def test_the_cure_that_an_error_names_is_its_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, hint: str
) -> None:
    assert json_error(monkeypatch, capsys, error)[1]["hint"] == hint


def test_every_kind_of_error_has_a_code_and_a_hint() -> None:
    def kinds(error: type[KvjobsError]) -> list[type[KvjobsError]]:
        return [error, *(kind for below in error.__subclasses__() for kind in kinds(below))]

    assert {kind.code for kind in kinds(KvjobsError)} | {"usage", "bug"} == HINTS.keys()


@pytest.mark.parametrize("arguments", [["no-such"], ["ls", "--no-such"], ["show"], ["steps", "1", "--by", "x"]])
def test_with_json_wrong_usage_is_an_object_too(kvjobs: Kvjobs, arguments: list[str]) -> None:
    result = kvjobs(*arguments, "--json")

    assert (result.exit_code, result.out) == (2, "")
    assert json.loads(result.err)["error"]["code"] == "usage"


def test_messages_beside_json_are_json_and_the_message_format_ends_with_its_command(
    kvjobs: Kvjobs, capsys: pytest.CaptureFixture[str]
) -> None:
    with messages_as(MessageFormat.JSON):
        print_message("two\nlines \x1b")
    assert capsys.readouterr().err == '{"message": "two\\nlines \\\\x1b"}\n'
    with messages_as(MessageFormat.QUIET):
        print_message("nothing")
    assert capsys.readouterr().err == ""
    kvjobs("steps", "--json")
    assert kvjobs("steps").err.startswith("Usage: ")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    raising(monkeypatch, error)

    assert run(["ls"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_unexpected_exception_is_reported_as_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ZeroDivisionError("\x1b[31m"))

    assert run(["ls"]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: \\x1b[31m)" in err
    assert "--debug" in err
    assert "Traceback" not in err

    assert run(["--debug", "ls"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["ls", "--no-such-option"], ["show"], ["steps", "1", "--by", "x"]]
)
def test_wrong_usage_exits_with_2(kvjobs: Kvjobs, arguments: list[str]) -> None:
    result = kvjobs(*arguments)

    assert result.exit_code == 2
    assert result.out == ""
    assert "Error:" in result.err


def test_a_mistyped_command_is_answered_with_a_suggestion(kvjobs: Kvjobs) -> None:
    assert "export?" in kvjobs("exprot", "1").err


def test_version_and_help_exit_with_0(kvjobs: Kvjobs) -> None:
    assert kvjobs("--version").out.startswith("kvjobs 0.")
    assert all(name in kvjobs("--help").out for name in COMMANDS)
    assert kvjobs("ls", "-h").exit_code == 0


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("psycopg.pq", "pip install 'psycopg[binary]>="),
        ("onnxruntime", "pip install 'onnxruntime>="),
        ("kombu.utils", "pip install kombu"),
        ("worker.cli.bench.group", "worker.cli.bench.group"),
    ],
)
def test_a_missing_module_is_named_with_the_command_that_brings_it(module: str, named: str) -> None:
    assert named in explain(ModuleNotFoundError(f"No module named {module!r}", name=module))


def test_a_command_whose_module_is_missing_becomes_one_sentence(
    monkeypatch: pytest.MonkeyPatch, kvjobs: Kvjobs
) -> None:
    monkeypatch.setitem(COMMANDS, "bench", Entry("worker.cli.no_such_module:bench", "Measure."))

    result = kvjobs("bench")

    assert result.exit_code == 1
    assert "worker.cli.no_such_module" in result.err


def test_completion_offers_commands_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    context = click.Context(main.cli, info_name="kvjobs")

    assert [item.value for item in main.cli.shell_complete(context, "wa")] == ["watch", "wait"]
    assert [item.value for item in main.cli.shell_complete(context, "--ho")] == ["--home"]


def json_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> tuple[int, dict[str, str]]:
    """The exit code of `kvjobs ls --json` that raises this error, and what it prints."""
    raising(monkeypatch, error)
    exit_code = run(["ls", "--json"])
    out, err = capsys.readouterr()
    assert out == ""
    said = json.loads(err)
    assert said.keys() == {"error"}
    return exit_code, said["error"]


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `kvjobs ls` raise this error."""

    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise error

    monkeypatch.setattr(main, "load_command", lambda _name: command)

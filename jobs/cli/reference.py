"""Writes docs/cli.md, the help of every command: `python -m jobs.cli.reference > docs/cli.md`. A test compares it."""

from collections.abc import Iterator

import click

from jobs.cli.main import PROGRAM, SECTIONS, cli, load_command

WIDTH = 100

HEAD = """# The command line

The help of every command, as `kvjobs COMMAND --help` prints it.

Data goes to standard output; messages and progress go to standard error. `NO_COLOR` is respected, and live progress is
shown only on a terminal. Control characters of a corpus never reach a terminal: they are printed as `\\x1b` and the
like, and escaped in JSON. Other data in a pipe or a file is unchanged. An empty list is `[]`.

| exit code | means |
|---|---|
| 0 | all documents succeeded; the command did what it was asked |
| 1 | operational failure: the database, the disk, a worker |
| 2 | wrong usage, or the input was refused: nothing was changed |
| 3 | the job ended, but documents failed, were rejected (more than `--max-rejected` allows), quarantined or cancelled |
| 4 | timeout while waiting |
| 5 | no such job or model |
| 130 | interrupted |

With `--json`, `submit`, `watch`, `wait`, `pause`, `resume`, `cancel` and `retry` print the job at their end, as an
object on one line. Its keys are those of `kvjobs ls --json`, such as `job_id`, `name`, `shown_state`, `documents`,
`ok`, `failed`, `quarantined`, `rejected`, `cancelled`, `skipped` and `waiting`
([what they mean](questions.md#what-became-of-the-documents)); `exit_code` is that of the command. Further keys:

| command | keys | means |
|---|---|---|
| `submit` | `already` | the state of the job before this submit: `new`, `resumed`, `running` or `complete` |
| `submit`, `watch` | `output` | the file with the results, or null |
| `cancel`, `retry` | `changed` | how many documents were cancelled, or will run again |
| `resume` | `was_paused` | whether the job was paused before |

`submit --dry-run --json` prints an object with `dry_run` (true), `task`, `model`, `documents`, `rejected`,
`rejected_lines` (the first ones: `line`, `error`), `shards`, `tokens`, `longest` (tokens of the longest sequence),
`estimated_tokens`, `estimated_s` (null if no job of this model has ended), `histogram` (`max_tokens`, `number` of
sequences), `stages_not_counted` (those of `--then`: `stage`, `task`, `model`) and `exit_code`. For a translation it
also has `segments`, `passed_through` and `split`, otherwise `sequences` and `longer`. With `-q`, `submit` prints only
the job's number.

With `--json`, standard error is JSON as well, an object a line: `{"message"}` for a message, and as the last line
`{"error": {"code", "message", "hint"}}` for an error. So standard output holds data, or nothing. `message` is the whole
sentence, `hint` says what to do, and `code` is one of these, which do not change between versions:

| code | exit code | means |
|---|---|---|
| `usage` | 2 | the command line is wrong |
| `refused` | 2 | the request cannot be carried out as given |
| `corpus` | 2 | the corpus cannot be read |
| `model` | 2 | the model on disk cannot be used |
| `not_found` | 5 | no such job or model |
| `unavailable` | 1 | the database is busy, full or unreachable; trying again later may help |
| `operational` | 1 | another operational failure |
| `interrupted` | 130 | Ctrl-C, or a signal |
| `bug` | 1 | an unexpected error in kvjobs |

Global options come before the command: `kvjobs --home FOLDER ls`.

<!-- made by: python -m jobs.cli.reference > docs/cli.md -->
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, _section(PROGRAM, cli)]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in entries:
            parts.extend(_sections(f"{PROGRAM} {name}", load_command(name)))
    return "\n".join(parts)


def _sections(name: str, command: click.Command) -> Iterator[str]:
    yield _section(name, command)
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            yield from _sections(f"{name} {part}", found)


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=WIDTH, help_option_names=["-h", "--help"])
    level = "##" if name == PROGRAM else "###"
    return f"{level} {name}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    click.echo(reference(), nl=False)

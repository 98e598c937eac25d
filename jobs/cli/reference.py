"""The help of every command on one page: `python -m jobs.cli.reference > docs/cli.md`. A test keeps the page true."""

from collections.abc import Iterator

import click

from jobs.cli.main import PROGRAM, SECTIONS, cli, load_command

WIDTH = 100

HEAD = """# The command line

The help of every command, as `kvjobs COMMAND --help` prints it.

Standard output is data; messages and progress go to standard error. `NO_COLOR` holds, and nothing moves where there is
no terminal. Text from a corpus never reaches a terminal with a control character in it: `\\x1b` shows as just that.
JSON is escaped likewise, and a list without members is `[]`. What goes into a pipe or a file is the data itself.

| exit code | means |
|---|---|
| 0 | all documents succeeded; the command did what it was asked |
| 1 | operational failure: the database, the disk, a worker |
| 2 | usage, or an input was refused: nothing was changed |
| 3 | finished, but some documents failed, were rejected (more than `--max-rejected` allows), quarantined or cancelled |
| 4 | timeout while waiting |
| 5 | no such job or model |
| 130 | interrupted |

With `--json`, `submit`, `watch`, `wait`, `pause`, `resume`, `cancel` and `retry` print the job as it is at their end,
as an object on one line. The keys are those of `kvjobs ls --json`, such as `job_id`, `name`, `shown_state`,
`documents`, `succeeded`, `rejected`, `failed`, `quarantined`, `cancelled` and `waiting`; `exit_code` is that of the
command. Besides:

| command | keys | means |
|---|---|---|
| `submit` | `already` | what there was of the job: `new`, `resumed`, `running` or `complete` |
| `submit`, `watch` | `output` | the file of results, or null |
| `cancel`, `retry` | `changed` | how many documents were cancelled, or put back |
| `resume` | `was_paused` | whether there was something to resume |

`submit --dry-run --json` has `dry_run` (true), `task`, `model`, `documents`, `rejected`, `rejected_lines` (the first
of them: `line`, `error`), `shards`, `tokens`, `longest` (a sequence's tokens), `estimated_tokens`, `estimated_s`
(null where no job of this model ended yet), `histogram` (`max_tokens`, `number` of sequences) and `exit_code`; of a
translation `segments`, `passed_through` and `split` too, otherwise `sequences` and `longer`. With `-q`, `submit`
prints the job's number alone.

Where `--json` is asked for, standard error is JSON as well, an object a line: `{"message"}` is what people are told
meanwhile, and an error is the last line: `{"error": {"code", "message", "hint"}}`. What
a script reads from standard output is data, or nothing. `message` is the whole sentence, `hint` what to do, and
`code` is one of these, which stay as they are:

| code | exit code | means |
|---|---|---|
| `usage` | 2 | the command line is wrong |
| `refused` | 2 | what was asked for cannot be done as asked |
| `corpus` | 2 | the corpus cannot be read |
| `model` | 2 | the model on disk cannot be used |
| `not_found` | 5 | no such job or model |
| `unavailable` | 1 | the database is busy, full or away: later it may work |
| `operational` | 1 | another operational failure |
| `interrupted` | 130 | Ctrl-C, or a signal |
| `bug` | 1 | an error that kvjobs does not know |

Global options stand before the command: `kvjobs --home FOLDER ls`.

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

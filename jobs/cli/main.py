"""The entry of `kvjobs`: the table of commands, loaded one at a time, and the one place where errors become words.

`kvjobs --help` reads this table alone, so it loads neither sqlalchemy nor celery nor rich nor onnxruntime.
"""

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from jobs import __version__, worker_port
from jobs.cli.context import Context
from jobs.cli.render.error_message import explain, report_error
from jobs.cli.render.messages import MessageFormat, messages_as
from jobs.cli.render.terminal import visible
from jobs.cli.streams import prepare_streams, settle_streams

PROGRAM = "kvjobs"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is, and its help in short (a test compares it with the command's own)."""

    target: str  # module:attribute
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Work": {
        "submit": Entry("jobs.cli.commands.submit:submit", "Submit CORPUS to be translated, scored or reranked."),
        "worker": Entry(worker_port.COMMANDS["worker"], "Run a worker."),
        "watch": Entry("jobs.cli.commands.watch:watch", "Follow a job until it ends."),
        "wait": Entry("jobs.cli.commands.watch:wait", "Wait until a job ends; its outcome is the exit code."),
        "pause": Entry("jobs.cli.commands.control:pause", "Start no more work of a job until it is resumed."),
        "resume": Entry("jobs.cli.commands.control:resume", "Let a paused job go on."),
        "cancel": Entry("jobs.cli.commands.control:cancel", "Give up what a job has not done yet; results stay."),
        "retry": Entry(
            "jobs.cli.commands.control:retry", "Put failed, quarantined and cancelled documents back to work."
        ),
    },
    "Results": {
        "ls": Entry("jobs.cli.commands.ls:ls", "List jobs, newest first."),
        "show": Entry("jobs.cli.commands.show:show", "Show what a job is, how far it is, and what went wrong."),
        "export": Entry("jobs.cli.commands.export:export", "Write the results of a job in the order of its corpus."),
        "totals": Entry(
            "jobs.cli.commands.totals:show_totals", "Show the perplexity of a whole corpus, or of its parts."
        ),
        "metrics": Entry(
            "jobs.cli.commands.metrics:metrics",
            "Measure the rankings of a job by judgements, before reranking and after.",
        ),
        "steps": Entry("jobs.cli.commands.steps:steps", "Show where the seconds of a job went."),
        "query": Entry("jobs.cli.commands.query:query", "Ask the database in SQL, read-only."),
    },
    "Installation": {
        "models": Entry(worker_port.COMMANDS["models"], "See the models that there are, and add others."),
        "bench": Entry(worker_port.COMMANDS["bench"], "Measure this machine."),
        "db": Entry("jobs.cli.commands.db:db", "Look after the database."),
        "config": Entry("jobs.cli.commands.config:config", "Show every setting and where it comes from."),
        "doctor": Entry("jobs.cli.commands.doctor:doctor", "Check this installation and say how to mend it."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """Commands by name; each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; {PROGRAM} --help lists them."
            raise click.UsageError(f"there is no command {visible(name)!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()], col_max=12)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=COMMANDS[name].help) for name in names] + options


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all documents succeeded, 1 operational failure, 2 usage or input refused, 3 finished but "
    "some documents failed, 4 timeout while waiting, 5 no such job or model, 130 interrupted.",
)
@click.option("--home", metavar="FOLDER", help="Where kvjobs keeps its data.  [env: KVJOBS_HOME]")
@click.option(
    "--database",
    metavar="URL",
    help="Where the jobs are. If the address holds a password, set the variable instead.  [env: KVJOBS_DATABASE]",
)
@click.option("--config", metavar="FILE", help="Use the settings of this kvjobs.toml.  [env: KVJOBS_CONFIG]")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, home: str | None, database: str | None, config: str | None, debug: bool) -> None:
    """Translate, score and rerank whole corpora in the background, on your own machines.

    A corpus is submitted as a job, workers process it, and every result lands in a database.
    JOB is the number of a job, its name, or "last".
    """
    ctx.obj = Context({"home": home, "database": database, "config": config}, debug)


def main() -> None:
    """The console script."""
    prepare_streams()
    if instruction := os.environ.get("_KVJOBS_COMPLETE"):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, PROGRAM, "_KVJOBS_COMPLETE", instruction))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    as_json = "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)
    with messages_as(MessageFormat.JSON if as_json else MessageFormat.PLAIN):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    debug = False
    try:
        try:
            with cli.make_context(PROGRAM, list(arguments)) as context:
                debug = bool(context.params["debug"])
                code = cli.invoke(context)
        except click.exceptions.Exit as done:  # of --help and --version
            code = done.exit_code
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort, click.ClickException) as error:
        return report_error(error, str(error), _called(arguments))
    except Exception as error:
        settle_streams()
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return 0  # whoever read us has seen enough
        if debug:
            import traceback

            traceback.print_exc()
        return report_error(error, explain(error), _called(arguments))
    return code if isinstance(code, int) else 0


def _called(arguments: Sequence[str]) -> str:
    """`kvjobs submit`, or `kvjobs` where no command stands."""
    return " ".join([PROGRAM, *(name for name in arguments if name in COMMANDS)][:2])


def load_command(name: str) -> click.Command:
    """Import a command of the table."""
    command = worker_port.load(COMMANDS[name].target)
    assert isinstance(command, click.Command), f"{COMMANDS[name].target} is no command"
    return command


if __name__ == "__main__":
    main()

"""The entry point of `kvjobs`: the table of commands, and the one place where errors become exit codes.

`kvjobs --help` prints this table and imports no command, so it loads neither sqlalchemy nor celery nor rich nor
onnxruntime.
"""

import errno
import gc
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
from jobs.cli.streams import prepare_streams, settle_streams
from jobs.errors import nearest
from jobs.system.suspension import suspend_between_transactions
from jobs.text.formatting import visible

PROGRAM = "kvjobs"


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a command, and the first sentence of its help (a test compares it with the command's own)."""

    target: str  # module:attribute
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Work": {
        "submit": Entry(
            "jobs.cli.commands.submit:submit", "Submit CORPUS to be translated, scored, reranked or continued."
        ),
        "worker": Entry(worker_port.COMMANDS["worker"], "Process submitted jobs."),
        "watch": Entry("jobs.cli.commands.watch:watch", "Follow a job until it ends."),
        "wait": Entry("jobs.cli.commands.watch:wait", "Wait until a job ends; the exit code is its outcome."),
        "pause": Entry("jobs.cli.commands.control:pause", "Pause a job until it is resumed."),
        "resume": Entry("jobs.cli.commands.control:resume", "Resume a paused job."),
        "priority": Entry(
            "jobs.cli.commands.control:priority", "Change a job's priority: low, normal, high, or a number."
        ),
        "close": Entry(
            "jobs.cli.commands.control:close", "Take no more documents for an open job; it ends with the last."
        ),
        "cancel": Entry("jobs.cli.commands.control:cancel", "Cancel the rest of a job; its results are kept."),
        "retry": Entry("jobs.cli.commands.control:retry", "Process failed, quarantined and cancelled documents again."),
    },
    "Results": {
        "ls": Entry("jobs.cli.commands.ls:ls", "List jobs, newest first."),
        "show": Entry("jobs.cli.commands.show:show", "Show the options, progress and failures of a job."),
        "export": Entry("jobs.cli.commands.export:export", "Write the results of a job, in the order of its corpus."),
        "totals": Entry(
            "jobs.cli.commands.totals:show_totals", "Show the perplexity, size and flags of a job, or of its parts."
        ),
        "compare": Entry("jobs.cli.commands.compare:compare_jobs", "Compare the results and the speed of two jobs."),
        "metrics": Entry(
            "jobs.cli.commands.metrics:metrics",
            "Measure the rankings of a job against relevance judgements.",
        ),
        "steps": Entry("jobs.cli.commands.steps:steps", "Show where a job spent its time."),
        "query": Entry("jobs.cli.commands.query:query", "Query the database in SQL, read-only."),
        "web": Entry(
            "jobs.cli.commands.web:web", "Open the dashboard: jobs, results, workers, and where the time went."
        ),
    },
    "Installation": {
        "models": Entry(worker_port.COMMANDS["models"], "List, add, inspect, verify and split models."),
        "bench": Entry(worker_port.COMMANDS["bench"], "Measure the speed of this machine."),
        "tokens": Entry("jobs.cli.commands.tokens:tokens", "Add, list and revoke the tokens of the dashboard."),
        "memory": Entry("jobs.cli.commands.memory:memory", "Import, export, list and prune the translation memory."),
        "db": Entry("jobs.cli.commands.db:db", "Maintain the database."),
        "config": Entry("jobs.cli.commands.config:config", "Show every setting and where it comes from."),
        "doctor": Entry("jobs.cli.commands.doctor:doctor", "Check this installation and suggest repairs."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = nearest(name, COMMANDS)
            hint = f"; did you mean {near}?" if near else f"; {PROGRAM} --help lists them."
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
    epilog="Exit codes: 0 all documents succeeded, 1 operational failure, 2 wrong usage or refused input, 3 the job "
    "ended but some documents failed, 4 timeout while waiting, 5 no such job or model, 130 interrupted.",
)
@click.option("--home", metavar="FOLDER", help="The folder where kvjobs keeps its data.  [env: KVJOBS_HOME]")
@click.option(
    "--database",
    metavar="URL",
    help="The address of the database. If it contains a password, set the variable instead.  [env: KVJOBS_DATABASE]",
)
@click.option("--config", metavar="FILE", help="Read the settings from this kvjobs.toml.  [env: KVJOBS_CONFIG]")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, home: str | None, database: str | None, config: str | None, debug: bool) -> None:
    """Translate, score, rerank and continue whole corpora in the background, on your own machines.

    A corpus is submitted as a job, workers process it, and every result is stored in a database. To begin: kvjobs
    submit corpus.jsonl --wait. Where a command takes JOB, give the job's number, its name, or "last" for the newest.
    """
    ctx.obj = Context({"home": home, "database": database, "config": config}, debug)


def main() -> None:
    """Run the command line of this process, and exit."""
    prepare_streams()
    suspend_between_transactions()
    if instruction := os.environ.get("_KVJOBS_COMPLETE"):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, PROGRAM, "_KVJOBS_COMPLETE", instruction))
    code = run(sys.argv[1:])
    gc.freeze()  # the interpreter's end would look at every object of the modules, for 0.2 s
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
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
            return 0  # the reader of the output, such as head, has closed the pipe: it has enough
        if debug:
            import traceback

            traceback.print_exc()
        return report_error(error, explain(error), _called(arguments))
    return code if isinstance(code, int) else 0


def _called(arguments: Sequence[str]) -> str:
    """`kvjobs submit`; or `kvjobs`, where no command was given."""
    return " ".join([PROGRAM, *(name for name in arguments if name in COMMANDS)][:2])


def load_command(name: str) -> click.Command:
    """Import a command of the table."""
    command = worker_port.load(COMMANDS[name].target)
    assert isinstance(command, click.Command), f"{COMMANDS[name].target} is not a command"
    return command


if __name__ == "__main__":
    main()

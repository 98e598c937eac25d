"""The commands that change a job: pause, resume, close, cancel, retry, priority. Each says what it changed."""

import click

from jobs.cli.context import Context
from jobs.cli.job_exit import json_option, print_job
from jobs.cli.parsed_type import Parsed
from jobs.cli.render.messages import print_message
from jobs.queues import read_priority


@click.command()
@click.argument("reference", metavar="JOB")
@click.option("--reason", help="A text that is shown with the job.")
@json_option
@click.pass_obj
def pause(context: Context, reference: str, reason: str | None, as_json: bool) -> None:
    """Pause a job until it is resumed.

    Workers finish the batch that they are processing and keep its results.
    """
    _perform(context, reference, "pause", as_json, reason=reason)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def resume(context: Context, reference: str, as_json: bool) -> None:
    """Resume a paused job."""
    _perform(context, reference, "resume", as_json)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def cancel(context: Context, reference: str, as_json: bool) -> None:
    """Cancel the rest of a job; its results are kept.

    Workers finish the batch that they are processing. Cancelling a job twice is harmless.
    """
    _perform(context, reference, "cancel", as_json)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def close(context: Context, reference: str, as_json: bool) -> None:
    """Take no more documents for an open job; it ends with the last.

    Workers process the documents that were appended before. Closing a job twice is harmless; a closed job is not opened
    again.
    """
    _perform(context, reference, "close", as_json)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def retry(context: Context, reference: str, as_json: bool) -> None:
    """Process failed, quarantined and cancelled documents again.

    A quarantined document is one that ends every process that works on it. A cancelled job continues. Results are
    kept. Rejected lines stay rejected: correct the corpus and submit it again.
    """
    _perform(context, reference, "retry", as_json)


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@click.argument("reference", metavar="JOB")
@click.argument("priority", type=Parsed(read_priority))
@json_option
@click.pass_obj
def priority(context: Context, reference: str, priority: int, as_json: bool) -> None:
    """Change a job's priority: low, normal, high, or a number.

    Jobs with a higher priority go first. Workers finish the part of a job that they are processing.
    """
    _perform(context, reference, "priority", as_json, priority=priority)


def _perform(
    context: Context,
    reference: str,
    action: str,
    as_json: bool,
    *,
    reason: str | None = None,
    priority: int | None = None,
) -> None:
    """Perform and log the action, and print what it changed."""
    from jobs.control.actions import COUNTING, Action, perform, this_user
    from jobs.control.messages import messages
    from jobs.dispatch.webhooks import MOST_S_FOR_WEBHOOKS, send_due

    with context.database() as database:
        performed = perform(database, reference, Action(action), this_user(), reason=reason, priority=priority)
        for message in messages(performed):
            print_message(message)
        if performed.after.has_ended:
            send_due(database, context.settings, MOST_S_FOR_WEBHOOKS, tell=print_message)
        if as_json:
            more: dict[str, object] = {"changed": performed.documents} if performed.action in COUNTING else {}
            more |= {"was_paused": performed.before.paused} if performed.action is Action.RESUME else {}
            print_job(context, database, performed.after, 0, **more)

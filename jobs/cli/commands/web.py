"""`kvjobs web`: the dashboard."""

import contextlib
import threading
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import messages_of_log, print_message
from jobs.number_ranges import Whole
from jobs.text.formatting import counted
from jobs.text.log_lines import JSON, log_to_stderr

if TYPE_CHECKING:
    from jobs.store.database import Database

DEFAULT_PORT = 8650
SHORT_TOKEN = 16  # characters; of fewer, a person has often chosen a word


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    metavar="N",
    type=number_type(Whole(0, 65535)),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen on; 0 takes any free one.",
)
@click.option(
    "--name",
    "names",
    metavar="NAME",
    multiple=True,
    help="A host name that visitors use, such as that of a proxy.  [repeatable]",
)
@click.option("--read-only", is_flag=True, help="Offer no action that changes a job, and make none.")
@click.option("--no-api", is_flag=True, help="Serve the pages alone, and no HTTP API.")
@click.pass_obj
def web(context: Context, host: str, port: int, names: tuple[str, ...], read_only: bool, no_api: bool) -> None:
    """Open the dashboard: jobs, results, workers, and where the time went.

    It listens on this machine alone. On another address every visitor needs a token: one of kvjobs tokens, or the one
    that KVJOBS_WEB_TOKEN holds, or the file that KVJOBS_WEB_TOKEN_FILE names.

    Programs upload files and make batches of them below /v1, as OpenAI's clients do (docs/http.md).
    """
    from jobs.dispatch.webhooks import WebhookSender
    from jobs.operations.batch_runner import running_batches
    from jobs.web.app import Options, create_app
    from jobs.web.server import is_loopback, listen, serve

    settings = context.settings
    if settings.log_format == JSON:
        log_to_stderr(settings.log_level, settings.log_format, "%(message)s")
        messages_of_log(settings.log_format)
    if 0 < len(settings.web_token) < SHORT_TOKEN:
        print_message(
            f"The token has only {counted(len(settings.web_token), 'character')}, and its length alone keeps out who "
            "guesses; make a longer one: openssl rand -hex 16"
        )
    with context.database() as database:
        if not is_loopback(host) and not settings.web_token:
            _require_token(database, host)
        bound = listen(host, port)
        where = bound.getsockname()
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        hosts = ("127.0.0.1", "localhost", "[::1]", shown, *names) if is_loopback(host) else ("*",)
        always_token = not is_loopback(host)  # also once the last one is revoked
        token = settings.web_token or None
        options = Options(hosts, token, always_token=always_token, read_only=read_only, has_api=not no_api)
        app = create_app(database, settings, options)
        print_message(f"The dashboard is at http://{shown}:{where[1]} (Ctrl-C ends it).")
        stop = threading.Event()
        WebhookSender(database, settings).start(stop)  # where no worker runs, too
        with contextlib.ExitStack() as stack:
            stack.callback(stop.set)
            if not (no_api or read_only):
                app.state.batch_runner = stack.enter_context(running_batches(database, settings))
            serve(app, bound)


def _require_token(database: "Database", host: str) -> None:
    """Raise SpecError where no visitor could have a token."""
    from jobs.errors import SpecError
    from jobs.store.tokens import valid_tokens

    with database.reading() as connection:
        if not valid_tokens(connection):
            raise SpecError(
                f"{host} can be reached from other machines, so visitors need a token: kvjobs tokens add NAME --role "
                "viewer (or producer, operator), or write one into a file and name it in KVJOBS_WEB_TOKEN_FILE; or "
                "leave --host out"
            )

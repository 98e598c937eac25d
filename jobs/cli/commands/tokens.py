"""`kvjobs tokens`: who may look at the dashboard, submit over HTTP, and act."""

import click

from jobs.choices import Role
from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.parsed_type import Parsed
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.number_ranges import Whole, read_size
from jobs.text.formatting import NOTHING, count, moment, size

ROLES = {
    Role.VIEWER: "It reads pages, results and metrics.",
    Role.PRODUCER: "It also submits, and acts on its own jobs.",
    Role.OPERATOR: "It acts on every job and worker.",
}
FIELDS = (
    *("name", "role", "prefix", "created_at", "created_by", "last_used_at", "max_jobs", "max_bytes", "revoked_at"),
)
COLUMNS = (
    Column("name", "NAME"),
    Column("role", "ROLE"),
    Column("prefix", "SECRET", "{}...".format),
    Column("last_used_at", "LAST USED", moment),
    Column("max_jobs", "MAX JOBS", count, right=True, rank=3),
    Column("max_bytes", "UPLOAD", lambda value: NOTHING if value is None else size(value), right=True, rank=4),
    Column("created_at", "ADDED", moment, rank=2),
    Column("created_by", "BY", rank=5),
    Column("revoked_at", "REVOKED", moment, rank=1),
)


@click.group()
def tokens() -> None:
    """Add, list and revoke the tokens of the dashboard.

    A token has a role. A viewer reads everything that the dashboard shows, also as JSON, exports, queries and metrics.
    A producer also submits over HTTP, and acts on the jobs that it submitted. An operator acts on every job and worker.
    The token in KVJOBS_WEB_TOKEN is an operator's. As soon as there is a token, every visitor needs one.
    """


@tokens.command()
@click.argument("name")
@click.option(
    "--role",
    metavar="ROLE",
    type=SuggestingChoice([role.value for role in Role]),
    required=True,
    help=f"What it allows: {', '.join(Role)}.",
)
@click.option(
    "--max-jobs",
    metavar="N",
    type=number_type(Whole(1)),
    help="At most so many of its jobs may be open at a time.  [default: any number]",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    type=Parsed(read_size),
    help="The largest upload: 500M, 1.5G.  [default: as the dashboard allows]",
)
@click.pass_obj
def add(context: Context, name: str, role: str, max_jobs: int | None, max_bytes: int | None) -> None:
    """Add a token, and print its secret.

    The secret is printed once and stored nowhere: TOKEN=$(kvjobs tokens add ci --role producer). Programs send it as
    "Authorization: Bearer SECRET", people enter it in the dashboard.
    """
    from jobs.control.actions import this_user
    from jobs.store.tokens import add_token, valid_tokens

    with context.database() as database:
        with database.reading() as connection:
            is_first = not valid_tokens(connection)
        secret = add_token(database, name, Role(role), this_user(), max_jobs=max_jobs, max_bytes=max_bytes)
    click.echo(secret)
    print_message(f"This is the secret of {name}, {role}; keep it, it is not shown again. {ROLES[Role(role)]}")
    if is_first and not context.settings.web_token:
        print_message(
            "It is the first token: from now on every visitor of the dashboard needs one, and so does /metrics."
        )


@tokens.command()
@click.option("-a", "--all", "everything", is_flag=True, help="List revoked tokens too.")
@output_options()
@click.pass_obj
def ls(context: Context, output: Output, everything: bool) -> None:
    """List the tokens, without their secrets."""
    import dataclasses

    from jobs.store.tokens import all_tokens, valid_tokens

    with context.database() as database, database.reading() as connection:
        found = all_tokens(connection) if everything else valid_tokens(connection)
    if output.is_table and not found:
        print_message("There is no token; to add one: kvjobs tokens add NAME --role viewer")
        return
    columns = COLUMNS if everything else COLUMNS[:-1]
    output.rows((dataclasses.asdict(token) for token in found), columns, FIELDS)


@tokens.command()
@click.argument("name")
@click.pass_obj
def revoke(context: Context, name: str) -> None:
    """Revoke a token, also in browsers that logged in with it.

    A dashboard that runs refuses it within seconds. Its jobs go on, and a new token of the same name has them.
    """
    from jobs.store.tokens import revoke_token, valid_tokens

    with context.database() as database:
        revoke_token(database, name)
        with database.reading() as connection:
            is_last = not valid_tokens(connection)
    print_message(f"The token {name} is revoked; a dashboard that runs refuses it within seconds.")
    if is_last and not context.settings.web_token:
        print_message("It was the last one: a dashboard of this machine now asks for none.")

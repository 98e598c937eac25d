"""`kvjobs config`: every setting and where it comes from."""

import click

from jobs.cli.context import Context
from jobs.cli.render.output import Column, Output, output_options
from jobs.settings import shown_value


@click.command()
@output_options(csv=True)
@click.pass_obj
def config(context: Context, output: Output) -> None:
    """Show every setting and where it comes from.

    Flags override KVJOBS_* variables, these override kvjobs.toml, and that overrides the defaults. Passwords and keys
    are hidden. OPENAI_API_KEY, OPENAI_BASE_URL and OLLAMA_HOST count where nothing but a default is set.

    The file is the one that --config or KVJOBS_CONFIG names. Without one, kvjobs.toml in the current folder overrides
    kvjobs.toml in the home folder. A file in the current folder may have come with somebody else's data, so only those
    of its settings are used that cannot redirect data: lanes, lease_s, heartbeat_s, poll_s, hang_s, busy_timeout_s,
    log_level, log_format.
    """
    settings = context.settings
    rows = []
    for setting in context.sources:
        value = settings.database_url if setting.name == "database" else setting.value
        rows.append(
            {
                "name": setting.name,
                "value": shown_value(setting.name, value),
                "source": setting.source,
            }
        )
    output.rows(
        rows,
        (Column("name", "SETTING"), Column("value", "VALUE"), Column("source", "FROM")),
        ("name", "value", "source"),
    )

"""The option `--price-per-million`, of the commands that start a worker: a setting for one run."""

import click

price_option = click.option(
    "--price-per-million",
    "openai_price_per_million",
    metavar="IN,OUT",
    help="Price of a million prompt tokens and of a million completion tokens of the provider openai, or one number "
    "for both. The cost is recorded.  [default: the setting openai_price_per_million]",
)

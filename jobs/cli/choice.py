"""A value of a fixed list on the command line, with the one that was probably meant."""

from typing import Any

import click

from jobs.errors import nearest


class Choice(click.Choice[Any]):
    """As click's own; a value that is none of the list gets the nearest one, as a command does."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        names = [str(name) for name in self._normalized_mapping(ctx=ctx).values()]
        near = nearest(str(value), names, cutoff=0.5)
        return f"{message.rstrip('.')}; did you mean {near}?" if near else message

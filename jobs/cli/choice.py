"""An option with a fixed list of values, whose error names the value that was probably meant."""

from typing import Any

import click

from jobs.errors import nearest


class SuggestingChoice(click.Choice[Any]):
    """click's own Choice; the error of a value that is not in the list also names the nearest value."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        names = [str(name) for name in self._normalized_mapping(ctx=ctx).values()]
        near = nearest(str(value), names, cutoff=0.5)
        return f"{message.rstrip('.')}; did you mean {near}?" if near else message

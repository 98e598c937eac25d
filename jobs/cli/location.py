"""The type of an option that names a file, on this machine or elsewhere."""

from typing import Any

import click

from jobs.addresses.address import Location, located
from jobs.errors import SpecError


class LocationType(click.ParamType[Location]):
    """A path, or an address: s3://bucket/out.jsonl.zst."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted before
        try:
            return located(value)
        except SpecError as error:
            self.fail(str(error), param, ctx)

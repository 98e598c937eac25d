"""The type of an option whose text a function of the project reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jobs.errors import SpecError
from jobs.terms.glossary import is_reference, read_glossary_file


class Parsed(click.ParamType[Any]):
    """What a function makes of the text; its SpecError is click's error, which names the option."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read
        self.name = getattr(read, "__name__", "text").removeprefix("read_")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.read(value)
        except SpecError as error:
            self.fail(str(error), param, ctx)


class FileContent(Parsed):
    """What a function makes of the text of a file; a reference of what is stored (`sha256:...`) is no path."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or is_reference(value):
            return super().convert(value, param, ctx)
        try:
            return read_glossary_file(Path(value), self.read)
        except SpecError as error:
            self.fail(str(error), param, ctx)

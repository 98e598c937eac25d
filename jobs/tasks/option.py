"""An option of a task, as data: which values it takes, and what is said of it.

From the declarations come the options of `kvjobs submit`, the check of a value wherever it is given, the words of a
command that sets it, and how it is stored. Knows no task, no click and no files.

An option that is a field of a task's frozen options is declared at that field, whose name, type and default it has:

    beam_size: int | None = option(None, "Number of beams.", Whole(1, 1000))
"""

import dataclasses
import enum
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

from jobs.errors import SpecError, meant
from jobs.number_ranges import Real, Whole

T = TypeVar("T")

SEVERAL, EVERY = "Several tasks", "Options"  # headings of options that no task has alone
_NOUNS = {bool: "true or false", str: "a text"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a task. Without `help` users cannot set it: a model or the table of routes does."""

    help: str = ""
    numbers: Whole | Real | None = None  # the range of a number
    _: KW_ONLY
    heading: str = ""  # under which help lists it, where that is not its task
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None  # reads what JSON and a text hold in another form; raises SpecError
    is_file: bool = False
    is_content: bool = False  # of a file: on the command line its path; elsewhere what is in it, which `parse` reads
    of_corpus: bool = False  # whether it says how a corpus is read
    of_routes: bool = False  # whether it says which models a document goes through
    in_memory: bool = True  # whether it decides a result: part of the keys of the memories
    is_later: bool = False  # whether there are jobs without it: at its default it is not stored, and in no digest
    # A field of a task's options has these from its declaration.
    name: str = ""
    type: Any = str  # the class of its values; of several values, `tuple`, and each is a text
    default: Any = None  # None: the model's, or none

    @property
    def flag(self) -> str:
        """The option on the command line: `--beam-size`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of an enumeration; else none."""
        return tuple(map(str, self.type)) if isinstance(self.type, enum.EnumMeta) else ()

    def read(self, value: Any) -> Any:
        """The option's value from a plain one, of JSON or of a command. Raises SpecError for one that it cannot be."""
        if value is None and self.default is None:
            return None
        if self.parse is not None:
            return self._named(self.parse, value)
        if self.numbers is not None:
            return self._named(self.numbers.check, value)
        if self.choices:
            if value not in self.choices:
                near = meant(str(value), self.choices)
                raise SpecError(f"{self.name} is {value!r}{near}; it can be {', '.join(self.choices)}")
            return self.type(value)
        if self.type is tuple:
            if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
                raise SpecError(f"{self.name} is {value!r}, and not a list of texts")
            return tuple(value)
        if type(value) is not self.type:
            raise SpecError(f"{self.name} is {value!r}, and not {_NOUNS[self.type]}")
        return value

    def read_texts(self, texts: Sequence[str]) -> Any:
        """The option's value from texts, as a query string or a form has them: a text for each time that it is given
        (true and false for what is either; an empty one is true). Raises SpecError as `read` does, and for an option
        with one value that is given twice."""
        if self.type is tuple:
            return self.read(list(texts))
        if len(texts) > 1:
            raise SpecError(f"{self.name} is given {len(texts)} times, and has one value: give it once")
        text = texts[0]
        if self.type is bool:
            return self.read({"": True, "true": True, "false": False}.get(text, text))
        if self.parse is None and self.numbers is not None:
            return self._named(self.numbers.parse, text)
        return self.read(text)

    def _named(self, read: Callable[[Any], Any], value: Any) -> Any:
        """What a function makes of a value; its error names the option."""
        try:
            return read(value)
        except SpecError as error:
            message = str(error)
            raise SpecError(message if message.startswith(self.name) else f"{self.name}: {message}") from None

    def words(self, value: Any) -> Iterator[str]:
        """The arguments that set the option to a value on the command line."""
        if isinstance(value, bool):
            yield self.flag if value else f"--no-{self.flag[2:]}"
            return
        for item in value if isinstance(value, tuple) else (value,):
            yield from (self.flag, str(item))


def option(default: T, of: Option | str = "", numbers: Whole | Real | None = None, **how: Any) -> T:
    """A field of a task's frozen options that is an option; `of`: its help, or the same option of another task."""
    declared = dataclasses.replace(of, **how) if isinstance(of, Option) else Option(of, numbers, **how)
    field: T = dataclasses.field(default=default, metadata={"option": declared})
    return field


_DECLARED: dict[type, tuple[Option, ...]] = {}  # of each class, once: options are made for every batch


def options_of(values: type) -> tuple[Option, ...]:
    """The options that the fields of a task's frozen options declare, in their order."""
    if values not in _DECLARED:
        _DECLARED[values] = tuple(_declared(values))
    return _DECLARED[values]


def _declared(values: type) -> Iterator[Option]:
    for field in dataclasses.fields(values):
        if "option" in field.metadata:
            parts = typing.get_args(field.type)
            kind = typing.get_origin(field.type) if type(None) not in parts else parts[0]
            kind = kind or field.type
            yield dataclasses.replace(field.metadata["option"], name=field.name, type=kind, default=field.default)


def check_numbers(values: Any) -> None:
    """Raise SpecError where a field of a task's options is a number out of its bounds."""
    for option in options_of(type(values)):
        if option.numbers is not None:
            option.read(getattr(values, option.name))

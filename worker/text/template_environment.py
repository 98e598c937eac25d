"""
Where a chat template runs: jinja2's sandbox, with bounds on how long it runs and how much it makes.

A template is a program in a file that somebody else wrote. The sandbox keeps it from files, modules and attributes of
objects, and a single `range` from more than 100,000 numbers; but loops nest, macros call themselves, and texts grow by
doubling. So each turn of a loop, each call and each filter counts as a step, and the text, the numbers and the
processor time of a run are bounded, too. No signal is needed: a worker renders in threads.

Knows: jinja2, and the names that transformers gives templates. Does not know: messages.
"""

import datetime
import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

# The templates of published models take 5 to 20 steps a message; a million are about a second.
MAX_STEPS = 1_000_000
MAX_CPU_S = 5.0  # by the clock of the thread, where steps are long
_STEPS_A_LOOK = 16  # at the clock: a look takes as long as several steps
MAX_CHARACTERS = 1 << 26  # of a text or list that a template makes
_MAX_BITS = 4096  # of a number
_MAX_ARGUMENT = 1 << 20  # widths, counts


class TooMuchError(jinja2.TemplateRuntimeError):
    """The template does more than the bounds allow."""


@dataclass(slots=True)
class _BoundedRun:
    """The steps and processor time that a run has left."""

    steps: int
    ends_at: float  # by the thread's processor time


_run: ContextVar[_BoundedRun | None] = ContextVar("_run", default=None)  # of this thread


@contextmanager
def bounded_run() -> Iterator[None]:
    """Bound the templates that are compiled or rendered in the block: beyond the bounds they raise TooMuchError."""
    token = _run.set(_BoundedRun(MAX_STEPS, time.thread_time() + MAX_CPU_S))
    try:
        yield
    finally:
        _run.reset(token)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one template. Compile and render in a `bounded_run`."""

    intercepted_binops = frozenset(["*", "**", "+"])  # which are then not computed while compiling, either

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.filters["tojson"] = _to_json
        self.filters = {name: _counted(function) for name, function in self.filters.items()}
        self.globals["raise_exception"] = _raise
        self.globals["strftime_now"] = _strftime_now
        del self.globals["lipsum"]  # makes any number of sentences

    def compile_bounded(self, source: nodes.Template) -> jinja2.Template:
        """The template, which counts its steps; changes `source`."""
        for loop in list(source.find_all(nodes.For)):
            turn = nodes.EnvironmentAttribute("turn")  # read, and not called, which takes ten times as long
            loop.body.insert(0, nodes.ExprStmt(turn).set_lineno(loop.lineno))
        for joined in list(source.find_all(nodes.Concat)):
            joined.nodes = [nodes.Call(nodes.EnvironmentAttribute("join"), joined.nodes, [], None, None)]
            joined.set_lineno(joined.lineno)
        source.set_environment(self)
        return self.from_string(source)

    @property
    def turn(self) -> None:
        """Count one turn of a loop as a step."""
        _step()

    def join(self, *parts: Any) -> str:
        """Concatenate, as the operator `~` of templates; the size is bounded."""
        return self.concat(map(str, parts))

    def concat(self, pieces: Iterable[str]) -> str:
        """Join the pieces of a template, macro or block; the size is bounded."""
        kept, size = [], 0
        for piece in pieces:
            kept.append(piece)
            size += len(piece)
            _check_size(size)
        return "".join(kept)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function for a template; each call is a step."""
        _step()
        _check_arguments((*args, *kwargs.values()))
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a product, power or sum of a template; the size is bounded."""
        _step()
        if operator == "+":
            if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
                _check_size(len(left) + len(right))
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            _check_bits(bits)
        elif operator == "*":
            for several, times in ((left, right), (right, left)):
                if isinstance(several, str | list | tuple) and isinstance(times, int):
                    _check_size(len(several) * times)
        return super().call_binop(context, operator, left, right)


def _step() -> None:
    run = _run.get()
    if run is None:
        return
    run.steps -= 1
    if run.steps < 0:
        raise TooMuchError(f"it takes more than {MAX_STEPS:,} steps")
    if run.steps % _STEPS_A_LOOK == 0 and time.thread_time() > run.ends_at:
        raise TooMuchError(f"it takes more than {MAX_CPU_S:g} s of processor time")


def _check_size(size: int) -> None:
    if size > MAX_CHARACTERS:
        raise TooMuchError(f"it makes a text or a list of more than {MAX_CHARACTERS:,} characters")


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise TooMuchError(f"it makes a number of more than {_MAX_BITS:,} bits")


def _check_arguments(arguments: Iterable[Any]) -> None:
    for argument in arguments:
        if isinstance(argument, int) and argument > _MAX_ARGUMENT:
            raise TooMuchError(f"it asks for {argument.bit_length()} bits of width or count; at most {_MAX_ARGUMENT:,}")


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same filter, each call of which counts as a step."""

    @functools.wraps(function)  # with the marks of jinja2: whether it gets the environment
    def step(*args: Any, **kwargs: Any) -> Any:
        _step()
        _check_arguments((*args[1:], *kwargs.values()))
        return function(*args, **kwargs)

    return step


class _Generation(Extension):
    """`{% generation %}`, which marks text of the model; the text inside is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson` of transformers; jinja2's own escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().astimezone().strftime(form)

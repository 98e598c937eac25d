"""A function in a process of its own, which ends with it: nothing that others opened is in its memory."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def in_own_process(
    function: Callable[Arguments, Found], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Found:
    """What it returns. Raises what it raises, and BrokenProcessPool where the process ended."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()

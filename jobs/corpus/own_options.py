"""
A document of a generating job that has options of its own, which come before the job's:

    {"messages": [...], "options": {"max_new_tokens": 20, "stop": ["\\n"]}}          of a chat
    {"text": "...", "options": {"temperature": 1, "seed": 7}}

Knows: the payload of such a document. Does not know: how a corpus says the options.
"""

import dataclasses
import functools
from typing import Any

import orjson

from jobs.tasks.generate import GenerateOptions
from jobs.tasks.option import options_of

# Those that decide a single continuation. (The others say how the job's documents are read and computed together.)
OWN_OPTIONS = ("max_new_tokens", "temperature", "top_p", "top_k", "seed", "stop")


def own_prompt(payload: str, options: GenerateOptions) -> tuple[str, GenerateOptions]:
    """A document as jobs without own options have it (of a chat the payload, else the prompt), and its options."""
    if not options.own_options:
        return payload, options
    values: dict[str, Any] = orjson.loads(payload)
    return payload if options.chat else values["text"], with_own(options, values.get("options", {}))


def with_own(options: GenerateOptions, own: dict[str, Any]) -> GenerateOptions:
    """The options of a document. Raises SpecError for a value that an option cannot be."""
    return _with(options, tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in own.items()))


@functools.lru_cache(256)  # most documents of a job have those of others
def _with(options: GenerateOptions, own: tuple[tuple[str, Any], ...]) -> GenerateOptions:
    known = {option.name: option for option in options_of(GenerateOptions) if option.name in OWN_OPTIONS}
    return dataclasses.replace(options, **{name: known[name].read(value) for name, value in own})

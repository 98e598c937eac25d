"""The languages that a translating job is between: of its options, else of the end of its model's name."""

import re
from typing import NamedTuple

# `opus-mt-en-zh`, `Helsinki-NLP/opus-mt-tc-big-en-pt`, `opus-mt-en-de-int8`: codes of two or three letters at the end.
_PAIR = re.compile(r"[-_]([a-z]{2,3})[-_]([a-z]{2,3})(?:-(?:int8|fp16|fp32))?$")
_FAMILIES = frozenset({"big", "mt", "tc", "gpt", "sla", "mul"})  # such words at the end of a name are no languages


class LanguagePair(NamedTuple):
    """Codes of two languages, such as `en`, `zh_CN` or `deu_Latn`."""

    source: str
    target: str


def language_pair(model: str, source_language: str, target_language: str | None) -> LanguagePair | None:
    """The languages of a job of this model with these options; None where neither names the target. A model's name
    comes before `source_language`, which is only a default for most."""
    found = _PAIR.search(model.lower())
    named = found.groups() if found and not _FAMILIES & {*found.groups()} else None
    target = target_language or (named[1] if named else None)
    return None if target is None else LanguagePair(named[0] if named else source_language, target.strip("<>"))

"""The languages that a model or a translating job is between: of its options, else of its model's name."""

import re
from typing import NamedTuple

# `opus-mt-en-zh`, `Helsinki-NLP/opus-mt-tc-big-en-pt-int8`, `demo-en-zh.v2`; two pairs may overlap: -mt-en-zh.
_TWO_LETTERS = re.compile(r"(?=-([a-z]{2})-([a-z]{2})(?=$|[-_.]))")
# `opus-mt-eng-fra`, `nl_yue`: at the end alone, since many words have three letters.
_AT_THE_END = re.compile(r"[-_]([a-z]{2,3})[-_]([a-z]{2,3})(?:-(?:int8|fp16|fp32))?$")
_NO_LANGUAGES = frozenset({"big", "mt", "tc", "gpt", "sla", "mul"})  # words of OPUS-MT's names that stand so too


class LanguagePair(NamedTuple):
    """Codes of two languages, such as `en`, `zh_CN` or `deu_Latn`."""

    source: str
    target: str


def pair_of(model: str) -> LanguagePair | None:
    """Source and target language of a model for one pair, by its name; None where the name does not say."""
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    for match in (*_TWO_LETTERS.finditer(name), *_AT_THE_END.finditer(name)):
        if not _NO_LANGUAGES & {*match.groups()}:
            return LanguagePair(*match.groups())
    return None


def language_pair(model: str, source_language: str, target_language: str | None) -> LanguagePair | None:
    """The languages of a job of this model with these options; None where neither names the target. A model's name
    comes before `source_language`, which is only a default for most."""
    named = pair_of(model)
    target = target_language or (named.target if named else None)
    return None if target is None else LanguagePair(named.source if named else source_language, target.strip("<>"))

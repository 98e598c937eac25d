"""The languages that a model's name says: opus-mt-en-zh, demo-en-zh-int8. Does not know: files, settings."""

import re

_PAIR = re.compile(r"(?=-([a-z]{2})-([a-z]{2})(?=$|[-_.]))")  # two pairs may overlap: -mt-en-zh
_NO_LANGUAGES = frozenset({"mt", "tc"})  # in the names of OPUS-MT's models


def pair_of(model: str) -> tuple[str, str] | None:
    """Source and target language of a model for one pair, by its name; None where the name does not say."""
    for match in _PAIR.finditer(model.lower()):
        source, target = match.groups()
        if not _NO_LANGUAGES & {source, target}:
            return source, target
    return None


def normalized(language: str) -> str:
    """A language tag as it is compared: `pt-BR` and `pt_br` are one."""
    return language.strip().lower().replace("_", "-")


def with_broader(language: str) -> list[str]:
    """A tag and the broader ones behind it: pt-br, pt."""
    parts = normalized(language).split("-")
    return ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]

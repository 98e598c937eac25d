"""How many plural forms a language has in gettext, and which of them stands for one thing.

Knows: Plural-Forms. Does not know: files.
"""

import gettext
import re
from dataclasses import dataclass

from jobs.files.plural_table import plurals_of

MAX_FORMS = 10  # no language has more than 6; a header that says a million is refused

_FORMS = re.compile(r"\s*nplurals\s*=\s*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+?)\s*;?\s*")


@dataclass(frozen=True, slots=True)
class PluralRule:
    """A rule as the header says it."""

    header: str
    num_forms: int
    singular: int | None  # the form for n = 1, or None where one form is for all numbers


def rule_of(language: str) -> PluralRule:
    """Of a language (`de`, `pt-BR`, `zh_Hant`); that of English for one that is not known."""
    rule = parsed(plurals_of(language).rule)
    assert rule is not None
    return rule


def parsed(header: str) -> PluralRule | None:
    """The field Plural-Forms; None for one that is no rule, like that of a template."""
    found = _FORMS.fullmatch(header)
    if found is None or not 0 < (num_forms := int(found[1])) <= MAX_FORMS:
        return None
    if num_forms == 1:
        return PluralRule(header, 1, None)
    try:
        singular = gettext.c2py(found[2])(1)
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    return PluralRule(header, num_forms, singular) if 0 <= singular < num_forms else None

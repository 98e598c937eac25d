"""How many plural forms a language has, and which of them stands for one thing.

The rules are those of GNU gettext (gettext-tools/src/plural-table.c), which msginit writes; of languages that it lacks
those of its manual (node "Plural forms") and of Unicode's CLDR for whole numbers.

Knows: Plural-Forms. Does not know: files.
"""

import gettext
import re
from dataclasses import dataclass

MAX_FORMS = 10  # no language has more than 6; a header that says a million is refused

_FORMS = re.compile(r"\s*nplurals\s*=\s*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+?)\s*;?\s*")
_NOT_ONE, _ABOVE_ONE = "nplurals=2; plural=(n != 1);", "nplurals=2; plural=(n > 1);"
_EAST_SLAVIC = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
_RULES = {
    "id ja km ko lo ms my th vi zh": "nplurals=1; plural=0;",
    "am bn fa fil fr gu hi hy kab kn oc pa pt_br ti wa": _ABOVE_ONE,
    "be bs hr ru sr uk": _EAST_SLAVIC,
    "cs sk": "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;",
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "ro": "nplurals=3; plural=n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2;",
    "ga": "nplurals=3; plural=n==1 ? 0 : n==2 ? 1 : 2;",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ar": "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
}
_BY_LANGUAGE = {language: rule for languages, rule in _RULES.items() for language in languages.split()}


@dataclass(frozen=True, slots=True)
class PluralRule:
    """A rule as the header says it."""

    header: str
    num_forms: int
    singular: int | None  # the form for n = 1, or None where one form is for all numbers


def rule_of(language: str) -> PluralRule:
    """Of a language (`de`, `pt-BR`, `zh_Hant`); that of English for one that is not known."""
    name = language.lower().replace("-", "_")
    header = _BY_LANGUAGE.get(name) or _BY_LANGUAGE.get(name.partition("_")[0]) or _NOT_ONE
    rule = parsed(header)
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

"""The plurals of languages: the categories of Unicode's CLDR, and gettext's rule, in the order of these categories.

From CLDR as Babel 2.19 has it (tools/cldr_plurals.py), with which the tests compare it; Babel itself has 33 MB. A rule
has the categories that whole numbers have: what Czech calls `many` (1.5) is none of its forms. Where CLDR has `many`
for millions alone (Spanish, French ...), gettext's table (gettext-tools/src/plural-table.c) has no form for it, as
here; of Portuguese (of Portugal, as there), Vietnamese and Occitan gettext's rule is kept, too.

https://cldr.unicode.org/index/cldr-spec/plural-rules

Knows: numbers. Does not know: files.
"""

from collections.abc import Collection
from dataclasses import dataclass

CATEGORIES = ("zero", "one", "two", "few", "many", "other")  # in this order


@dataclass(frozen=True, slots=True)
class Plurals:
    """Those of some languages."""

    categories: tuple[str, ...]
    rule: str  # as the header Plural-Forms of gettext


def plurals_of(language: str) -> Plurals:
    """Of a language (`de`, `pt-BR`, `zh_Hant`); those of English for one that is not known."""
    name = language.lower().replace("-", "_")
    return _BY_LANGUAGE.get(name) or _BY_LANGUAGE.get(name.partition("_")[0]) or _ENGLISH


def wanted_categories(there: Collection[str], language: str | None) -> dict[str, str]:
    """The categories that a plural has in a language, each with the one of `there` whose text says it: of one thing for
    `one`, else that of `other`. Without a language, and without `other`, those that are there."""
    if language is None or "other" not in there:
        return {each: each for each in there}
    of_others = {"one": "one" if "one" in there else "other"}
    return {each: each if each in there else of_others.get(each, "other") for each in plurals_of(language).categories}


def _plurals(categories: str, num_forms: int, expression: str) -> Plurals:
    return Plurals(tuple(categories.split()), f"nplurals={num_forms}; plural={expression};")


_ONE_OF_TEN = "n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_ENGLISH = _plurals("one other", 2, "(n != 1)")
_ROWS = {
    "bm bo dz hnj id ig ii ja jbo jv kde kea km ko lkt lo ms my nqo osa sah ses sg su th to tpi wo yo yue zh": _plurals(
        "other", 1, "0"
    ),
    "ak am as bho bn csw doi fa ff gu hi hy kab kn kok ln mg nso pa pcm si tg ti wa zu": _plurals(
        "one other", 2, "(n > 1)"
    ),
    "vi": _plurals("one other", 1, "0"),
    "oc": _plurals("one other", 2, "(n > 1)"),
    "fr pt_br": _plurals("one many other", 2, "(n > 1)"),
    "ca es gl it lld pt scn vec": _plurals("one many other", 2, "(n != 1)"),
    "ceb fil tl": _plurals("one other", 2, "(n!=1 && n!=2 && n!=3 && (n%10==4 || n%10==6 || n%10==9))"),
    "is mk": _plurals("one other", 2, "(n%10!=1 || n%100==11)"),
    "tzm": _plurals("one other", 2, "(n>=2 && (n<11 || n>99))"),
    "blo cv ksh lag": _plurals("zero one other", 3, "(n==0 ? 0 : n==1 ? 1 : 2)"),
    "lv prg": _plurals("zero one other", 3, "(n%10==0 || (n%100>=11 && n%100<=19) ? 0 : n%10==1 && n%100!=11 ? 1 : 2)"),
    "iu naq sat se sma smi smj smn sms": _plurals("one two other", 3, "(n==1 ? 0 : n==2 ? 1 : 2)"),
    "he": _plurals("one two other", 3, "(n==1 ? 0 : n==2 ? 1 : 2)"),
    "bs hr sr": _plurals("one few other", 3, f"({_ONE_OF_TEN})"),
    "ro": _plurals("one few other", 3, "(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2)"),
    "shi": _plurals("one few other", 3, "(n<2 ? 0 : n<=10 ? 1 : 2)"),
    "cs sk": _plurals("one few many other", 3, "(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2)"),
    "be ru uk": _plurals("one few many other", 3, f"({_ONE_OF_TEN})"),
    "pl": _plurals("one few many other", 3, "(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)"),
    "lt": _plurals(
        "one few many other", 3, "(n%10==1 && (n%100<11 || n%100>19) ? 0 : n%10>=2 && (n%100<11 || n%100>19) ? 1 : 2)"
    ),
    "dsb hsb sl": _plurals("one two few other", 4, "(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3)"),
    "gd": _plurals("one two few other", 4, "(n==1 || n==11 ? 0 : n==2 || n==12 ? 1 : n>2 && n<20 ? 2 : 3)"),
    "sgs": _plurals(
        "one two few many other", 4,
        "(n%10==1 && n%100!=11 ? 0 : n==2 ? 1 : n%10>=2 && (n%100<11 || n%100>19) ? 2 : 3)",
    ),
    "gv": _plurals("one two few many other", 4, "(n%10==1 ? 0 : n%10==2 ? 1 : n%20==0 ? 2 : 3)"),
    "ga": _plurals("one two few many other", 5, "(n==1 ? 0 : n==2 ? 1 : n>2 && n<7 ? 2 : n>6 && n<11 ? 3 : 4)"),
    "mt": _plurals(
        "one two few many other", 5,
        "(n==1 ? 0 : n==2 ? 1 : n==0 || (n%100>2 && n%100<11) ? 2 : n%100>10 && n%100<20 ? 3 : 4)",
    ),
    "br": _plurals(
        "one two few many other", 5,
        "(n%10==1 && n%100!=11 && n%100!=71 && n%100!=91 ? 0 : n%10==2 && n%100!=12 && n%100!=72 && n%100!=92 ? 1 : "
        "(n%10==3 || n%10==4 || n%10==9) && (n%100<10 || n%100>19) && (n%100<70 || n%100>79) && n%100<90 ? 2 : "
        "n!=0 && n%1000000==0 ? 3 : 4)",
    ),
    "ar": _plurals(
        "zero one two few many other", 6,
        "(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5)",
    ),
    "cy": _plurals(
        "zero one two few many other", 6, "(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n==3 ? 3 : n==6 ? 4 : 5)"
    ),
    "kw": _plurals(
        "zero one two few many other", 6,
        "(n==0 ? 0 : n==1 ? 1 : n%100<83 && n%20==2 || (n%1000==0 && n%100000>=1000 && n%100000<=20000) || "
        "n%100000==40000 || n%100000==60000 || n%100000==80000 || n%1000000==100000 ? 2 : n%20==3 ? 3 : n%20==1 ? 4 : "
        "5)",
    ),
}  # fmt: skip
_BY_LANGUAGE = {language: plurals for languages, plurals in _ROWS.items() for language in languages.split()}

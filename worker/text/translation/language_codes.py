"""
Which of a model's language codes a user means: by the code itself, or by another code of the same language.

    M2M100    en, zh            two letters (ISO 639-1), or three where there are none
    NLLB-200  eng_Latn          FLORES-200: three letters (ISO 639-3) and the script (ISO 15924)
    mBART-50  en_XX, zh_CN      two letters and a region

Knows: codes of languages. Does not know: tokenizers.
"""

import re
from collections.abc import Collection
from difflib import get_close_matches

from jobs.errors import SpecError

_NUM_SHOWN = 12  # languages in an error message
_SEPARATOR = re.compile("[-_]")

# ISO 639-1 -> ISO 639-3. Where a code stands for a macrolanguage, the languages of it that FLORES-200 has and that are
# commonly meant; several of them are all offered. `ns` is M2M100's own.
_THREE_LETTERS = {
    "af": "afr", "ak": "aka", "am": "amh", "ar": "arb", "as": "asm", "ay": "ayr", "az": "azj azb", "ba": "bak",
    "be": "bel", "bg": "bul", "bm": "bam", "bn": "ben", "bo": "bod", "br": "bre", "bs": "bos", "ca": "cat",
    "cs": "ces", "cy": "cym", "da": "dan", "de": "deu", "dz": "dzo", "ee": "ewe", "el": "ell", "en": "eng",
    "eo": "epo", "es": "spa", "et": "est", "eu": "eus", "fa": "pes prs", "ff": "fuv", "fi": "fin", "fj": "fij",
    "fo": "fao", "fr": "fra", "fy": "fry", "ga": "gle", "gd": "gla", "gl": "glg", "gn": "grn", "gu": "guj",
    "ha": "hau", "he": "heb", "hi": "hin", "hr": "hrv", "ht": "hat", "hu": "hun", "hy": "hye", "id": "ind",
    "ig": "ibo", "is": "isl", "it": "ita", "ja": "jpn", "jv": "jav", "ka": "kat", "kg": "kon", "ki": "kik",
    "kk": "kaz", "km": "khm", "kn": "kan", "ko": "kor", "kr": "knc", "ks": "kas", "ku": "kmr ckb", "ky": "kir",
    "lb": "ltz", "lg": "lug", "li": "lim", "ln": "lin", "lo": "lao", "lt": "lit", "lv": "lvs", "mg": "plt",
    "mi": "mri", "mk": "mkd", "ml": "mal", "mn": "khk", "mr": "mar", "ms": "zsm", "mt": "mlt", "my": "mya",
    "nb": "nob", "ne": "npi", "nl": "nld", "nn": "nno", "no": "nob nno", "ns": "nso", "ny": "nya", "oc": "oci",
    "om": "gaz", "or": "ory", "pa": "pan", "pl": "pol", "ps": "pbt", "pt": "por", "qu": "quy", "rn": "run",
    "ro": "ron", "ru": "rus", "rw": "kin", "sa": "san", "sc": "srd", "sd": "snd", "sg": "sag", "si": "sin",
    "sk": "slk", "sl": "slv", "sm": "smo", "sn": "sna", "so": "som", "sq": "als", "sr": "srp", "ss": "ssw",
    "st": "sot", "su": "sun", "sv": "swe", "sw": "swh", "ta": "tam", "te": "tel", "tg": "tgk", "th": "tha",
    "ti": "tir", "tk": "tuk", "tl": "tgl", "tn": "tsn", "tr": "tur", "ts": "tso", "tt": "tat", "tw": "twi",
    "ug": "uig", "uk": "ukr", "ur": "urd", "uz": "uzn", "vi": "vie", "wo": "wol", "xh": "xho", "yi": "ydd",
    "yo": "yor", "zh": "zho", "zu": "zul",
}  # fmt: skip


def find_language(wanted: str, codes: Collection[str], side: str) -> str:
    """The code among a model's `codes` that `wanted` means: `en`, `eng`, `en-GB` and `eng_Latn` mean `eng_Latn`.

    `side`: source or target, for messages. Raises SpecError if no code matches, or several do.
    """
    by_folded = {_folded(code): code for code in codes}
    if (exact := by_folded.get(_folded(wanted))) is not None:
        return exact
    matches = sorted(code for code in codes if _language(code) == _language(wanted)) or sorted(
        code for code in codes if _is_alias(_language(wanted), _language(code))
    )
    if (script := _script(wanted)) is not None:
        matches = [code for code in matches if _script(code) in (script, None)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(f"the {side} language {wanted!r} can be {' or '.join(matches)} in this model: name one of them")
    raise SpecError(f"this model has no {side} language {wanted!r}; it has {some_languages(codes, wanted)}")


def may_be_same(code: str, other: str) -> bool:
    """Whether two codes may mean the same language: `en`, `eng_Latn` and `en-GB` may mean `en`; not two scripts
    (`zh_Hans`, `zh-TW`), nor two regions (`pt-BR`, `pt-PT`)."""
    same = _language(code) == _language(other) or _is_alias(_language(code), _language(other))
    scripts, regions = (_script_or_its_region(code), _script_or_its_region(other)), (_region(code), _region(other))
    return same and all(None in both or both[0] == both[1] for both in (scripts, regions))


def some_languages(codes: Collection[str], wanted: str = "") -> str:
    """A few of the languages, those like `wanted` first, for a message."""
    close = get_close_matches(wanted, codes, _NUM_SHOWN, cutoff=0.5)
    shown = [*close, *sorted(set(codes) - set(close))][:_NUM_SHOWN]
    num_more = len(codes) - len(shown)
    return ", ".join(shown) + (f" and {num_more} more" if num_more else "")


def _folded(code: str) -> str:
    return code.replace("-", "_").lower()


def _language(code: str) -> str:
    return _SEPARATOR.split(code)[0].lower()


def _script(code: str) -> str | None:
    """The four letters of a script in a code; None where it has none, or a region in its place."""
    return next((part.lower() for part in _SEPARATOR.split(code)[1:] if len(part) == 4), None)


def _region(code: str) -> str | None:
    """The two letters of a region in a code; None where it has none. (`XX` of mBART-50 is none.)"""
    parts = (part.lower() for part in _SEPARATOR.split(code)[1:] if len(part) == 2)
    return next((part for part in parts if part != "xx"), None)


def _script_or_its_region(code: str) -> str | None:
    """The script of a code; of Chinese also by its region."""
    of_chinese = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}
    is_chinese = _language(code) in ("zh", "zho", "cmn", "yue")
    return _script(code) or (of_chinese.get(_region(code) or "") if is_chinese else None)


def _is_alias(code: str, other_code: str) -> bool:
    """Whether one of the codes has two letters, the other three, and both mean the same language."""
    return other_code in _THREE_LETTERS.get(code, "").split() or code in _THREE_LETTERS.get(other_code, "").split()

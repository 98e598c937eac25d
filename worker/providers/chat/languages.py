"""The languages of a job, as a chat model is told them."""

import re
from dataclasses import dataclass

from jobs.spec import JobSpec
from jobs.tasks.translate import TranslateOptions

# `opus-mt-en-zh`, `Helsinki-NLP/opus-mt-tc-big-en-pt`: codes of two or three letters at the end of a model's name.
_PAIR = re.compile(r"[-_]([a-z]{2,3})[-_]([a-z]{2,3})$")
_FAMILIES = frozenset({"big", "mt", "tc", "gpt", "sla", "mul"})  # such words at the end of a name are no languages

# English names of ISO 639 codes, with and without a script (FLORES: `cmn_Hans`). Any other code is given as it is,
# which models understand mostly.
_NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali",
    "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo",
    "is": "Icelandic", "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh",
    "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ky": "Kyrgyz", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian",
    "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay",
    "mt": "Maltese", "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch",
    "nn": "Norwegian Nynorsk", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "so": "Somali",
    "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tg": "Tajik",
    "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek",
    "vi": "Vietnamese", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
    "ara": "Arabic", "ces": "Czech", "cmn": "Chinese", "deu": "German", "eng": "English", "fra": "French",
    "ita": "Italian", "jpn": "Japanese", "kor": "Korean", "mlg": "Malagasy", "nld": "Dutch", "pol": "Polish",
    "por": "Portuguese", "rus": "Russian", "spa": "Spanish", "tur": "Turkish", "ukr": "Ukrainian",
    "vie": "Vietnamese", "yue": "Cantonese", "zho": "Chinese",
}  # fmt: skip
_SCRIPTS = {"Hans": "simplified", "Hant": "traditional", "Latn": "Latin script", "Cyrl": "Cyrillic script"}

NO_TARGET = (
    "a chat model has to be told the target language, which neither --target-language nor the model's name "
    "(…-en-zh) says"
)


@dataclass(frozen=True, slots=True)
class LanguagePair:
    """Names for a prompt: English, Chinese (simplified)."""

    source: str
    target: str


def language_pair(spec: JobSpec) -> LanguagePair | None:
    """The languages of a translating job: of the option `--target-language`, else of the end of the model's name; None
    where neither names the target."""
    assert isinstance(spec.options, TranslateOptions)
    found = _PAIR.search(spec.model.lower())
    named = found.groups() if found and not _FAMILIES & set(found.groups()) else None
    source = named[0] if named else spec.options.source_language
    target = spec.options.target_language or (named[1] if named else None)
    return None if target is None else LanguagePair(language_name(source), language_name(target))


def language_name(code: str) -> str:
    """`Chinese (simplified)` for `cmn_Hans`, `Portuguese (BR)` for `pt-BR`; an unknown code as it is."""
    base, *rest = re.split(r"[-_]", code.strip("<>"))
    name = _NAMES.get(base.lower())
    if name is None:
        return code.strip("<>")
    detail = ", ".join(_SCRIPTS.get(part, part) for part in rest)
    return f"{name} ({detail})" if detail else name

"""
Translation by a chat model.

    text   -> prompt                     the document as a whole, with the languages by name
    answer -> Translation | Failed       white space around the text as in the source
           or declined: nothing but thoughts, or what no database can store

A document without a letter ("—", "12:30") is not sent: it passes through, as with other engines.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.answers import Unanswered
from jobs.outcome import Failed, Flag, Outcome, Translation
from jobs.providers import Reason
from jobs.routing.language_pair import language_pair as language_codes
from jobs.spec import JobSpec
from jobs.tasks.translate import Segmentation, TranslateOptions
from worker.engine.tasks.document_assembly import join_document, merge_flags
from worker.providers.chat.repetition_rules import why_not_against_repetition
from worker.text.loops import has_loop
from worker.text.marks.check import lost_placeholders
from worker.text.segments import segment

TEMPLATE = (
    "Translate the following text from {source} to {target}. Answer with the translation alone: no explanation, no "
    "quotation marks around it, and the same line breaks.\n\n{text}"
)
_THOUGHTS = re.compile(r"\A\s*(?:<think>)?(.*?)</think>", re.DOTALL)  # a template may hold the first tag itself
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


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat server returned for one document, read and checked by the provider."""

    text: str
    is_complete: bool  # False: it stopped at the limit on tokens
    num_prompt_tokens: int
    num_completion_tokens: int
    log_probs: Sequence[float] | None = None  # of the generated tokens, natural log; None: the server gave none


def why_not_translate(spec: JobSpec) -> str | None:
    """Why a chat model cannot do a translating job, a sentence; None: it can."""
    assert isinstance(spec.options, TranslateOptions)
    if spec.options.n_best > 1:
        return "a chat model gives one translation, and --n-best asks for more"
    if spec.options.beam_size is not None and spec.options.beam_size > 1:
        return "a chat model has no beam search, and --beam-size asks for one"
    if spec.options.segment not in (Segmentation.SENTENCES, Segmentation.NONE):
        return f"a chat model translates whole documents, and --segment {spec.options.segment} asks for parts"
    if spec.options.temperature:
        return "a chat model's server draws by rules of its own, and --temperature asks for a translation model's"
    if spec.options.prefix is not None:
        return "a chat model cannot be made to begin with a text, and --prefix asks for it"
    if why := why_not_against_repetition(spec.options):
        return why
    if spec.options.alignments:
        return "a chat model does not tell which words belong together, and --alignments asks for it"
    if spec.options.keeps_marks:
        return "a chat model says no alignment, which --markup, --placeholders and --keep need"
    return NO_TARGET if language_pair(spec) is None else None


def passed_through(text: str, source_language: str) -> Outcome | None:
    """The outcome of a document in which nothing is to translate; None for any other."""
    spans = segment(text, source_language)
    if any(span.translatable for span in spans):
        return None
    return join_document(spans, [], num_reused=0, n_best=1)


def prompt_of(text: str, languages: LanguagePair, template: str = "") -> str:
    """The user's message. `template` has {text} and may have {source} and {target}; empty: `TEMPLATE`. Only these are
    replaced, and once: the text may hold braces."""
    filled = (template or TEMPLATE).replace("{source}", languages.source).replace("{target}", languages.target)
    before, _, after = filled.partition("{text}")
    return f"{before}{text.strip()}{after}"


def thoughts_alone(num_tokens: int) -> Unanswered:
    """A document for which the model only thought: another model may translate it."""
    return Unanswered(Reason.DECLINED, f"the model thought for {num_tokens} tokens and gave no translation")


def outcome_of(text: str, answer: ChatAnswer) -> Outcome | Unanswered:
    """The outcome of a document, from the answer to its prompt."""
    translated = answer.text.strip()
    if not translated:
        return Failed("empty-answer", "the chat model answered with no text")
    if "\0" in translated:
        return Unanswered(Reason.DECLINED, "its translation holds a NUL character, which PostgreSQL cannot store")
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    flags = [] if answer.is_complete else [Flag.TRUNCATED]
    if answer.log_probs is None:
        flags.append(Flag.UNSCORED)
    if has_loop(translated, text):
        flags.append(Flag.REPETITION)
    if lost_placeholders(text, translated):
        flags.append(Flag.PLACEHOLDER_LOST)
    return Translation(
        text=f"{start}{translated}{end}",
        log_prob=None if answer.log_probs is None else sum(answer.log_probs),
        num_segments=1,
        num_reused=0,
        num_source_tokens=answer.num_prompt_tokens,
        num_target_tokens=answer.num_completion_tokens,
        flags=merge_flags(flags),
    )


def without_thoughts(text: str, answer: str) -> tuple[str, bool]:
    """An answer without its <think> block, and whether it has one. `text` is what was translated: one that holds such
    tags itself keeps them."""
    if "think>" in text:
        return answer, False
    if found := _THOUGHTS.match(answer):
        return answer[found.end() :], True
    if answer.lstrip().startswith("<think>"):  # it came to no end
        return "", True
    return answer, False


def language_pair(spec: JobSpec) -> LanguagePair | None:
    """The languages of a translating job: of the option `--target-language`, else of the end of the model's name; None
    where neither names the target."""
    assert isinstance(spec.options, TranslateOptions)
    options = spec.options
    found = language_codes(spec.model, options.source_language, options.target_language)
    return None if found is None else LanguagePair(language_name(found.source), language_name(found.target))


def language_name(code: str) -> str:
    """`Chinese (simplified)` for `cmn_Hans`, `Portuguese (BR)` for `pt-BR`; an unknown code as it is."""
    base, *rest = re.split(r"[-_]", code.strip("<>"))
    name = _NAMES.get(base.lower())
    if name is None:
        return code.strip("<>")
    detail = ", ".join(_SCRIPTS.get(part, part) for part in rest)
    return f"{name} ({detail})" if detail else name

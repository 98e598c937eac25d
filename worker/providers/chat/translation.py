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
from jobs.spec import JobSpec
from jobs.tasks.translate import TranslateOptions
from worker.engine.tasks.document_assembly import join_document, merge_flags
from worker.providers.chat.languages import NO_TARGET, LanguagePair, language_pair
from worker.text.loops import has_loop
from worker.text.segments import segment

TEMPLATE = (
    "Translate the following text from {source} to {target}. Answer with the translation alone: no explanation, no "
    "quotation marks around it, and the same line breaks.\n\n{text}"
)
_THOUGHTS = re.compile(r"\A\s*(?:<think>)?(.*?)</think>", re.DOTALL)  # a template may hold the first tag itself


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

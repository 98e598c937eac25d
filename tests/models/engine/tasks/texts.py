"""Texts to translate with a tiny model, and a tokenizer and a memory for them."""

from collections.abc import Callable, Sequence
from typing import Any

from jobs.answers import Answers
from jobs.errors import SpecError
from jobs.outcome import SegmentTranslation, Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import TranslateOptions
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.tasks.translation import Translator
from worker.text.translation.sentence_pieces import TargetBeginning

GREEDY = TranslateOptions(beam_size=1)
DIGEST = b"model and options"


class WordTokenizer:
    """A word becomes an id, from the sum of its letters; generated ids are decoded to `t5 t6`. `seen`: split texts."""

    def __init__(self, languages: Sequence[str] = (), max_tokens: int = 64) -> None:
        self.languages = frozenset(languages)
        self.max_tokens = max_tokens
        self.seen: list[str] = []

    source_language: str | None = None

    def for_source(self, language: str) -> "WordTokenizer":
        return self

    def beginning(self, language: str | None) -> TargetBeginning:
        return TargetBeginning()

    def check_language(self, language: str | None) -> None:
        if language is not None and language not in self.languages:
            raise SpecError(f"no target language {language!r}")

    def split(self, text: str, language: str | None, max_tokens: int) -> list[list[int]]:
        self.seen.append(text)
        ids = [2 + sum(map(ord, word)) % 40 for word in text.strip(".!?").split()]
        room = min(max_tokens, self.max_tokens) - 1
        return [[*ids[start : start + room], 0] for start in range(0, max(1, len(ids)), room)]

    def unknown_share(self, text: str) -> float:
        return sum(not one.isascii() for one in text) / max(len(text), 1)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"t{token_id}" for token_id in ids if token_id != 0)


class LanguageTokenizer(WordTokenizer):
    """A tokenizer that depends on the source language."""

    def __init__(self, source_language: str | None = None) -> None:
        super().__init__()
        self.source_language = source_language

    def for_source(self, language: str) -> "LanguageTokenizer":
        return LanguageTokenizer(language)


class DictMemory(dict[bytes, SegmentTranslation]):
    """A translation memory in a dictionary, and imported units by languages and source."""

    def __init__(self) -> None:
        super().__init__()
        self.imported: dict[tuple[str, str], dict[str, str]] = {}

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        return {key: self[key] for key in keys if key in self}

    def recall_imported(self, sentences: Sequence[str], languages: LanguagePair) -> dict[str, str]:
        return {sentence: text for sentence, text in self.imported.get(languages, {}).items() if sentence in sentences}


def translate(
    translator: Translator,
    texts: Sequence[str],
    options: TranslateOptions = GREEDY,
    *,
    memory: Any = None,
    languages: LanguagePair | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Answers:
    memory = DictMemory() if memory is None else memory
    return translator.translate(
        texts, options, RunContext(Stopwatch(options.timing), should_stop, memory, digest=DIGEST, languages=languages)
    )


def one(translated: Answers) -> Translation:
    (outcome,) = translated.outcomes
    assert isinstance(outcome, Translation)
    return outcome


TEXTS = [
    "Alpha beta gamma delta. Epsilon zeta!\n\nEta theta iota kappa lambda mu.",
    "Short one.",
    "",
    "42 - 17",
    "Alpha beta gamma delta. Nu xi omicron pi rho sigma tau upsilon phi.",
]

"""Translating: a text becomes one in another language, by one model or by two."""

import enum
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.number_ranges import Real, Whole
from jobs.outcome import Flag, Translation
from jobs.routing.routes import Route, read_routes
from jobs.tasks import shared_options as shared
from jobs.tasks.kept_patterns import kept_pattern
from jobs.tasks.kind import Compared, Kind, Mean, Measure, Words
from jobs.tasks.option import Option, check_numbers, option, options_of
from jobs.tasks.task import Task
from jobs.tasks.translation_fields import TRANSLATION_FIELDS
from jobs.terms.glossary import Glossary, read_glossary, read_kept_terms
from jobs.text.markup import Markup


class Placeholders(enum.StrEnum):
    """Whether placeholders and addresses in a text stay as they are."""

    NONE = "none"
    AUTO = "auto"  # {name}, %s, ${x}, <0/>, plurals of ICU, \\n, URLs, e-mail addresses, file paths


class Segmentation(enum.StrEnum):
    """What of a document is translated as a unit."""

    SENTENCES = "sentences"  # of each line
    LINES = "lines"
    PARAGRAPHS = "paragraphs"  # sentences of lines that are joined: for text that was wrapped at a width
    NONE = "none"  # the document as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateOptions:
    """Options of translating. None: the value in the model's generation_config.json."""

    beam_size: int | None = option(
        None, "Number of beams; 1 is greedy search.  [default: the model's]", Whole(1, 1000, "1 is greedy search")
    )
    n_best: int = option(  # hypotheses kept per segment, at most beam_size
        1,
        "Translations to keep of each document. Different tokens may make equal texts.",
        Whole(1, 1000, "1 keeps the best hypothesis alone"),
    )
    length_penalty: float | None = option(  # Wu et al. 2016
        None,
        "Exponent of the length by which the score of a beam is divided.  [default: the model's]",
        Real(-10, 10, "0 compares sums of log-probabilities, 1 their means"),
    )
    early_stopping: bool | None = None  # stop a beam search as soon as beam_size hypotheses have ended
    max_new_tokens: int | None = option(None, shared.MAX_NEW_TOKENS)  # per segment, end-of-sentence included
    repetition_penalty: float | None = option(None, shared.REPETITION_PENALTY)
    no_repeat_ngram_size: int | None = option(None, shared.NO_REPEAT_NGRAM_SIZE)
    allow_pad: bool = option(
        False,
        "Allow the padding token in translations if the model's settings do not forbid it, as transformers does.",
        is_later=True,
    )
    alignments: bool = option(
        False,
        "Keep which words of a sentence each word of its translation comes from.",
        in_memory=False,  # made anew of the translations, whatever made those
        is_later=True,
    )
    # Which models know the language of a segment, `memory_key` says.
    source_language: str = option("en", shared.SOURCE_LANGUAGE, in_memory=False)
    target_language: str | None = option(None, shared.TARGET_LANGUAGE)  # a label without >> and <<
    segment: Segmentation = option(
        Segmentation.SENTENCES,
        "What is translated as a unit: sentences; lines; paragraphs, the sentences of lines that are joined "
        "(for hard-wrapped text); or none, a document as a whole.",
        metavar="UNIT",
        in_memory=False,
        is_later=True,
    )
    max_chars: int | None = option(
        None,
        "The longest translation of a document, in characters: of the hypotheses of the beam search, the best that "
        "fits, else the shortest, with a flag. More beams find more (--beam-size).",
        Whole(1),
        metavar="N",
        in_memory=False,  # `JobSpec.memory_digest` says that the whole beam is kept
        is_later=True,
    )
    prefix: str | None = option(
        None,
        "The text with which each translation begins.",
        metavar="TEXT",
        in_memory=False,  # the key of a document's first sentence has it
        is_later=True,
    )
    temperature: float = option(0.0, shared.TEMPERATURE, is_later=True)
    top_p: float = option(1.0, shared.TOP_P, is_later=True)
    top_k: int = option(0, shared.TOP_K, is_later=True)
    seed: int = option(0, shared.SEED, is_later=True)
    cache: shared.CachePolicy = option(shared.AUTO_CACHE, shared.CACHE)
    batch_size: int | None = option(None, shared.BATCH_SIZE)  # None: the engine chooses
    reuse: bool = option(True, shared.REUSE)  # take a segment that was translated before from the translation memory
    timing: shared.Timing = option(shared.Timing.STEPS, shared.TIMING)
    # Marks are taken out before the model sees a sentence and put back after, so the memory's entries are the same.
    markup: Markup = option(
        Markup.NONE,
        "Keep the tags and entities of html or xml, or the signs of Markdown (md), where they belong.",
        is_later=True,
        in_memory=False,
    )
    placeholders: Placeholders = option(
        Placeholders.NONE,
        "auto: keep placeholders ({name}, %s, ${x}, <0/>, plurals of ICU), \\n, URLs, e-mail addresses and file paths.",
        is_later=True,
        in_memory=False,
    )
    keep: tuple[str, ...] = option(
        (), "Keep what this regular expression matches; repeatable.", metavar="REGEX", is_later=True, in_memory=False
    )
    # Flags are made anew of the translations, and those made with terms have keys of their own in the memory; what is
    # taken out and put back is in no entry.
    glossary: Glossary | None = option(
        None,
        "Terms with their translations, a .tsv or .tbx file: a sentence with one whose translation is missing is "
        "translated again with it, or gets the flag term-missing.",
        metavar="FILE",
        parse=read_glossary,
        is_content=True,
        is_later=True,
        in_memory=False,
    )
    glossary_subset: str | None = option(
        None,
        "Of the glossary's terms those whose column `subset` has this text, and those without one.",
        metavar="TEXT",
        is_later=True,
        in_memory=False,
    )
    no_translate: Glossary | None = option(
        None,
        "Terms that stay as they are, a text file with one a line.",
        metavar="FILE",
        parse=read_kept_terms,
        is_content=True,
        is_later=True,
        in_memory=False,
    )
    # The models of each language, or of all documents; empty: the job's model alone.
    routes: tuple[Route, ...] = option((), parse=read_routes, is_later=True)

    def __post_init__(self) -> None:
        check_numbers(self)
        for pattern in self.keep:
            kept_pattern(pattern)
        shared.check_sampling(self.temperature, self.top_p, self.top_k)
        if self.temperature and (self.beam_size or 1) > 1:
            raise SpecError(
                f"samples are drawn one by one, and beam_size is {self.beam_size}: leave --beam-size out, or "
                "--temperature; --n-best says how many samples"
            )
        if self.glossary_subset is not None and self.glossary is None:
            raise SpecError("glossary_subset chooses terms of a glossary, and none is given: add --glossary FILE")
        if self.prefix is not None and any(len(route.legs) > 1 for route in self.routes):
            raise SpecError("a prefix is for a translation by one model; leave --prefix out, or --via")
        if not self.temperature and self.beam_size is not None and self.n_best > self.beam_size:
            raise SpecError(
                f"n_best is {self.n_best} and beam_size {self.beam_size}; a beam search keeps at most beam_size "
                "hypotheses: raise --beam-size or lower --n-best"
            )

    @property
    def keeps_marks(self) -> bool:
        """Whether tags, placeholders or patterns are kept."""
        return self.markup != Markup.NONE or self.placeholders != Placeholders.NONE or bool(self.keep)

    @property
    def has_terms(self) -> bool:
        """Whether a glossary is given, or terms that stay."""
        return self.glossary is not None or self.no_translate is not None


# Several models: see `jobs.routing.plan`.
VIA = Option(
    "Translate into this language first, and from it with a second model; both texts are kept. --model and --via-model "
    "name the two, or the table [routes] of kvjobs.toml has them.",
    name="via",
    of_routes=True,
    metavar="LANGUAGE",
)
VIA_MODEL = Option(
    "The second model, which reads what --model writes.", name="via_model", of_routes=True, metavar="NAME"
)
LANGUAGE_FIELD = Option(
    "With --model auto: the field that holds a document's language. Where it is missing or empty, it is "
    "--source-language, if that is given.",
    name="language_field",
    default="lang",
    of_corpus=True,
)


def _own_field(name: str, what: str) -> Option:
    return Option(
        f"The field that holds {what}; where it is missing or empty, --{name.replace('_', '-')} decides.",
        name=f"{name}_field",
        of_corpus=True,
        metavar="NAME",
    )


# By option: what names the field that says it of a document (`jobs.tasks.document_options`).
OWN_FIELDS = {
    name: _own_field(name, what)
    for name, what in {
        "target_language": "the language to translate a document into",
        "max_new_tokens": "the longest translation of a segment of a document, in tokens",
        "max_chars": "the longest translation of a document, in characters",
        "glossary_subset": "the text that a term of the glossary has in its column `subset`",
        "prefix": "the text with which the translation of a document begins",
    }.items()
}


_MEAN = Mean("log_prob", "num_target_tokens", of="translation")
_MEAN_OF_VIA = Mean("via_log_prob", "via_target_tokens", of="text between two models")

TRANSLATE = Kind(
    name=Task.TRANSLATE,
    options_type=TranslateOptions,
    options=(*options_of(TranslateOptions), VIA, LANGUAGE_FIELD, VIA_MODEL, *OWN_FIELDS.values(), shared.TEXT_FIELD),
    models=("translation",),
    default_model="demo-en-zh",
    table="translations",
    about="The result of a document of a translating job.",
    words=Words("document", "translate", "translating", "translated", "Source", "Translation"),
    token_words=("{read} in, {made} out", "generated, of {read} read"),
    difference="share of changed words, mean",
    main="translation",
    outcome=Translation,
    mean=_MEAN,
    length="num_source_tokens",
    text="text",
    is_between_languages=True,
    compared=("text",),
    compared_as=Compared.TEXTS,
    measures=(
        Measure("perplexity", _MEAN),
        Measure("log-probability", "log_prob", "nats"),
        Measure("source tokens", "num_source_tokens"),
        Measure("target tokens", "num_target_tokens"),
        Measure("unknown to the model", "unknown_share", "% of the source", where="unknown_share", in_percent=True),
        Measure("perplexity, middle", _MEAN_OF_VIA, where="via"),
        Measure("log-probability, middle", "via_log_prob", "nats", where="via"),
        Measure("tokens written, middle", "via_target_tokens", where="via"),
        Measure("tokens read, middle", "via_source_tokens", where="via"),
        Measure("sentences", "num_segments"),
        Measure("from the memory", "num_reused", "sentences"),
    ),
    flags=(
        *(Flag.UNKNOWN_SOURCE, Flag.REPETITION, Flag.TRUNCATED),
        *(Flag.PLACEHOLDER_LOST, Flag.NUMBER_CHANGED, Flag.MARKUP_MOVED, Flag.TOO_LONG, Flag.TERM_MISSING),
        *(Flag.SPLIT, Flag.UNSCORED, Flag.IMPORTED, Flag.PASSED_THROUGH),
    ),
    fields=TRANSLATION_FIELDS,
)

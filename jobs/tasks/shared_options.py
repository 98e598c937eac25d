"""The options that several tasks have."""

import enum
import re
from dataclasses import dataclass

from jobs.errors import SpecError, meant
from jobs.number_ranges import Real, Whole
from jobs.tasks.option import EVERY, SEVERAL, Option

COLDEST = 1e-6  # temperature: logits divided by much less than this are no numbers


def check_sampling(temperature: float, top_p: float, top_k: int) -> None:
    """Raise SpecError where these options of sampling contradict each other."""
    if 0 < temperature < COLDEST:
        raise SpecError(f"temperature is {temperature}; it is 0 (greedy search), or {COLDEST} and more")
    if not temperature and (top_p < 1 or top_k):
        raise SpecError(
            "top_p and top_k choose among the tokens that are drawn, and none is drawn: give --temperature 1 as well"
        )


class Timing(enum.StrEnum):
    """How detailed the stored timings are."""

    STEPS = "steps"  # one row per model call
    BATCHES = "batches"  # one row per phase and batch
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """When a decoder reuses the keys and values of earlier steps.

    `auto` and `on` differ only for a graph without a cache: `on` refuses it. `hybrid:N` runs the whole prefix for the
    first N tokens and uses the cache from then on.
    """

    mode: str = "auto"  # auto | on | off | hybrid
    uncached_steps: int = 0  # N of hybrid:N

    @classmethod
    def parse(cls, value: "str | CachePolicy") -> "CachePolicy":
        """Parse `auto`, `on`, `off` or `hybrid:N`. Raises SpecError for anything else."""
        text = str(value)
        if text in ("auto", "on", "off"):
            return cls(text)
        if match := re.fullmatch(r"hybrid:([0-9]{1,4})", text):
            return cls("hybrid", int(match[1]))
        raise SpecError(
            f"cache is {text!r}{meant(text, ('auto', 'on', 'off'))}; it can be auto, on, off or hybrid:N (N "
            "uncached steps first)"
        )

    def __str__(self) -> str:
        return f"hybrid:{self.uncached_steps}" if self.mode == "hybrid" else self.mode


AUTO_CACHE = CachePolicy()

REUSE = Option(
    "translate, score: reuse stored translations of segments, and stored scores of documents, or compute all again.",
    heading=SEVERAL,
    in_memory=False,
)
MAX_NEW_TOKENS = Option(
    "translate: the longest translation of a segment, in tokens; generate: of a prompt.  [default: the model's; "
    "generate: 256]",
    Whole(1),
    heading=SEVERAL,
)
CACHE = Option(
    "translate, generate: use the KV cache: auto, on, off; translate: or hybrid:N (only after the first N steps).",
    heading=SEVERAL,
    parse=CachePolicy.parse,
    metavar="MODE",
)
BATCH_SIZE = Option(
    "translate, generate: sentences, or prompts, in one model call.  [default: as suits the model's size; generate: "
    "32]",
    Whole(1, 65_536),
    heading=SEVERAL,
    is_later=True,
)
PREFIX_CACHE = Option("rerank, generate: compute a common beginning of several sequences only once.", heading=SEVERAL)
MAX_LENGTH = Option(
    "score: the longest window; rerank: the longest query with its candidate.  [default: the model's context]",
    Whole(2, why="a token is scored after at least one other"),
    heading=SEVERAL,
    metavar="TOKENS",
)
REPETITION_PENALTY = Option(  # Keskar et al. 2019
    "translate, generate: tokens that a text already has are less likely by this factor; 1: as likely as before.  "
    "[default: the model's]",
    Real(0, 100, "1 changes nothing, more than 1 makes repetition less likely", without_least=True),
    heading=SEVERAL,
    metavar="FACTOR",
    is_later=True,
)
NO_REPEAT_NGRAM_SIZE = Option(
    "translate, generate: no N tokens in a row come twice in a text (of a prompt, the prompt included); 0: any may.  "
    "[default: the model's]",
    Whole(0, 1000, "0 allows every repetition"),
    heading=SEVERAL,
    metavar="N",
    is_later=True,
)
TEMPERATURE = Option(
    "translate, generate: draw each token from the model's distribution, its logits divided by this; 0: take the most "
    "likely ones.",
    Real(0, 100, "0 takes the most likely tokens"),
    heading=SEVERAL,
)
TOP_P = Option(  # Holtzman et al. 2020
    "translate, generate: draw from the most likely tokens that together have this probability.",
    Real(0, 1, "1 draws from all tokens", without_least=True),
    heading=SEVERAL,
    metavar="P",
)
TOP_K = Option(
    "translate, generate: draw from so many of the most likely tokens; 0: from all.",
    Whole(0, why="0 draws from all tokens"),
    heading=SEVERAL,
    metavar="K",
)
SEED = Option(
    "translate, generate: of the random numbers: with the same seed, a document gets the same text again.",
    Whole(0, 2**63 - 1),
    heading=SEVERAL,
)
SHARED_ORDER = (  # in help
    *("reuse", "max_new_tokens", "repetition_penalty", "no_repeat_ngram_size"),
    *("temperature", "top_p", "top_k", "seed"),
    *("cache", "batch_size", "prefix_cache", "max_length"),
)

SOURCE_LANGUAGE = Option(
    "The language of the texts, for splitting sentences, e.g. en or de; for a model with several source languages also "
    "that of its tokens, e.g. deu_Latn; also if it scores pairs.",
    heading="Translate",
    metavar="LANGUAGE",
)
TARGET_LANGUAGE = Option(
    "For a model with several target languages: its own name of it, e.g. fra or fra_Latn, or another code of the "
    "language, e.g. fr; also if it scores pairs. With --via: the language to end in.",
    heading="Translate",
    metavar="LANGUAGE",
)

# `kvjobs submit` lists these two among what all tasks have.
TIMING = Option(
    "Store the time of every model step, of every phase of a batch of documents, or nothing.",
    heading=EVERY,
    in_memory=False,
)
TEXT_FIELD = Option(
    "The field to translate, to score or to continue; in an object within the line: translation.en.",
    heading=EVERY,
    name="text_field",
    default="text",
    of_corpus=True,
)

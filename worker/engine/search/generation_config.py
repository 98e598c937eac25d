"""
The rules of a search, as generation_config.json (or, where there is none, config.json) sets them.

A setting that would change tokens and is not implemented raises ModelError; none is ignored.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self

from jobs.errors import ModelError, SpecError
from jobs.tasks.translate import TranslateOptions
from worker.engine.search.required_phrases import Phrases
from worker.engine.search.sampling import Sampling

EarlyStopping = bool | Literal["never"]

_DEFAULT_MAX_LENGTH = 20  # in transformers
_FORCE_END = ("marian", "bart", "mbart", "pegasus")  # families whose configuration class forces the end by default

# Settings that change tokens, with the values at which they do nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "constraints": (None,),
    "diversity_penalty": (None, 0.0),
    "do_sample": (None, False),
    "dola_layers": (None,),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1.0),
    "exponential_decay_length_penalty": (None,),
    "force_words_ids": (None,),
    "guidance_scale": (None, 1.0),
    "max_time": (None,),
    "num_beam_groups": (None, 1),
    "penalty_alpha": (None, 0.0),
    "remove_invalid_values": (None, False),
    "sequence_bias": (None,),
    "stop_strings": (None,),
    "watermarking_config": (None,),
}


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """What a segment has of its own."""

    prefix: tuple[int, ...] = ()  # the ids with which its translation begins, at no cost, behind `forced_bos_id`
    stream: tuple[int, ...] = ()  # what its random numbers depend on, beside the seed
    required: tuple[Phrases, ...] = ()  # of each requirement, the phrases of which its translation holds one
    longest: int | None = None  # the most tokens that are looked for, where phrases are required


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """The rules of one search. Lengths count generated tokens: no start token, end-of-sentence included."""

    start_id: int  # the first id that the decoder is fed
    eos_id: int
    max_new_tokens: int
    min_new_tokens: int = 0  # until then end-of-sentence is forbidden
    num_beams: int = 1
    length_penalty: float = 1.0  # exponent on length when ranking finished beams
    early_stopping: EarlyStopping = False  # stop a sentence when num_beams hypotheses have ended
    suppressed_ids: tuple[int, ...] = ()  # never generated
    unlisted_pad_id: int | None = None  # padding, if kvjobs added it to suppressed_ids: the model does not list it
    begin_suppressed_ids: tuple[int, ...] = ()  # never generated as the first token that is not forced
    bad_sequences: tuple[tuple[int, ...], ...] = ()  # sequences of two ids or more that are never generated
    forced_bos_id: int | None = None  # the first token
    forced_eos_id: int | None = None  # the last token, where max_new_tokens is reached
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    renormalize_logits: bool = False  # after the rules, before scores are summed
    sampling: Sampling | None = None  # None: the most likely tokens
    continuing_ids: tuple[int, ...] = ()  # ids that go on with the word before them, where whole words are required
    segments: tuple[SegmentRules, ...] = ()  # of the segments of a call by their index, where they have some

    def only(self, order: Sequence[int]) -> Self:
        """The rules of some segments of the call, in this order."""
        if not self.segments:
            return self
        return dataclasses.replace(self, segments=tuple(self.segments[index] for index in order))

    @property
    def longest_prefix(self) -> int:
        return max((len(segment.prefix) for segment in self.segments), default=0)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The only id that ends a sentence, as `LogitRules` has it."""
        return (self.eos_id,)

    @property
    def first_free_step(self) -> int:
        return 0 if self.forced_bos_id is None else 1

    def with_options(self, options: TranslateOptions, *, max_positions: int) -> Self:
        """These rules, overridden by the options of a job; lengths stay within the model's positions. Raises
        SpecError if the job wants more hypotheses than the search keeps."""
        wanted: dict[str, Any] = {
            "num_beams": 1 if options.temperature else options.beam_size,
            "length_penalty": options.length_penalty,
            "early_stopping": options.early_stopping,
            "repetition_penalty": options.repetition_penalty,
            "no_repeat_ngram_size": options.no_repeat_ngram_size,
            "max_new_tokens": options.max_new_tokens and min(options.max_new_tokens, max_positions),
        }
        if options.allow_pad and self.unlisted_pad_id is not None:
            suppressed = (token_id for token_id in self.suppressed_ids if token_id != self.unlisted_pad_id)
            wanted["suppressed_ids"] = tuple(suppressed)
        rules = dataclasses.replace(self, **{name: value for name, value in wanted.items() if value is not None})
        if options.temperature:
            sampling = Sampling(options.temperature, options.top_p, options.top_k, options.seed)
            return dataclasses.replace(rules, sampling=sampling)
        if options.n_best > rules.num_beams:
            raise SpecError(
                f"n_best is {options.n_best}, and a search with the model's own settings keeps {rules.num_beams}: give "
                f"--beam-size {options.n_best} or more as well, or lower --n-best"
            )
        return rules

    def with_beginning(self, start_id: int | None, forced_id: int | None) -> Self:
        """These rules with another id that the decoder is fed first, and the first token forced; None: as they are."""
        start_id = self.start_id if start_id is None else start_id
        forced_id = self.forced_bos_id if forced_id is None else forced_id
        return dataclasses.replace(self, start_id=start_id, forced_bos_id=forced_id)


def read_generation(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, *, vocab_size: int, max_positions: int
) -> GenerationConfig:
    """The rules that config.json and generation_config.json (None: there is none) set together; raise ModelError for
    a value that is not valid.

    As in transformers, generation_config.json alone holds the settings if it exists, and config.json adds only ids that
    it leaves out. Without a maximum length, the positions of the model are the maximum (transformers would stop after
    20 tokens).
    """
    file = "config.json" if generation is None else "generation_config.json"
    try:
        return _read_generation(config, generation, file, vocab_size, max_positions)
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{file} holds a setting that cannot be understood: {error}") from error


def _read_generation(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, file: str, vocab_size: int, max_positions: int
) -> GenerationConfig:
    fallback = {key: value for key, value in config.items() if value is not None}
    settings = {key: value for key, value in (generation or {}).items() if value is not None}
    if generation is None:
        settings = fallback
        if config.get("model_type") in _FORCE_END and "forced_eos_token_id" not in config:  # an old config.json
            settings = {"forced_eos_token_id": fallback.get("eos_token_id"), **settings}  # the class's default
        if fallback.get("force_bos_token_to_be_generated"):  # BartConfig's, before there was forced_bos_token_id
            settings = {"forced_bos_token_id": fallback.get("bos_token_id"), **settings}
    refuse_unsupported(settings, file)
    eos_id = _required_id({**fallback, **settings}, "eos_token_id", vocab_size)
    forbidden = ForbiddenIds.of(settings, (eos_id,), file, vocab_size)
    # The logit of padding is exactly 0 in Marian models, which is the highest where all others are negative.
    # transformers forbids it only if bad_words_ids lists it, as in all published opus-mt models; kvjobs always does,
    # except with `allow_pad`.
    pad_id = settings.get("pad_token_id", fallback.get("pad_token_id"))
    unlisted = {pad_id} - {eos_id, *forbidden.always} if isinstance(pad_id, int) and pad_id < vocab_size else set()
    rules = GenerationConfig(
        start_id=_required_id({**fallback, **settings}, "decoder_start_token_id", vocab_size),
        eos_id=eos_id,
        max_new_tokens=_max_new_tokens(settings, max_positions),
        min_new_tokens=whole_number(settings, "min_new_tokens", max(0, whole_number(settings, "min_length", 0) - 1)),
        num_beams=whole_number(settings, "num_beams", 1, at_least=1),
        length_penalty=float(settings.get("length_penalty", 1.0)),
        early_stopping=settings.get("early_stopping", False),
        suppressed_ids=tuple(sorted({*forbidden.always, *unlisted})),
        unlisted_pad_id=next(iter(unlisted), None),
        begin_suppressed_ids=forbidden.first,
        bad_sequences=forbidden.sequences,
        forced_bos_id=_id(settings, "forced_bos_token_id", vocab_size),
        forced_eos_id=_id(settings, "forced_eos_token_id", vocab_size),
        repetition_penalty=penalty(settings),
        no_repeat_ngram_size=whole_number(settings, "no_repeat_ngram_size", 0),
        renormalize_logits=settings.get("renormalize_logits", False),
    )
    for name, forced in (("forced_bos_token_id", rules.forced_bos_id), ("forced_eos_token_id", rules.forced_eos_id)):
        if forced in settings.get("suppress_tokens", []):
            raise ModelError(f"{file} forces {name} = {forced} and suppresses it in suppress_tokens")
    if rules.early_stopping not in (True, False, "never"):
        raise ModelError(f"{file} sets early_stopping = {rules.early_stopping!r}; it can be true, false or never")
    return rules


def refuse_unsupported(settings: Mapping[str, Any], file: str, decided: Set[str] = frozenset()) -> None:
    """Raise ModelError for a setting that would change tokens and is not implemented; `decided`: those that the options
    of a job decide, whatever the file says."""
    for name, harmless in _UNSUPPORTED.items():
        if name not in decided and settings.get(name) not in harmless:
            raise ModelError(
                f"{file} sets {name} = {json.dumps(settings[name])}, which kvjobs does not implement and which would "
                "change the result: remove it, or use another model"
            )


@dataclass(frozen=True, slots=True)
class ForbiddenIds:
    """The ids and sequences of ids that a model's settings forbid."""

    always: tuple[int, ...]  # ascending
    first: tuple[int, ...]  # as the first token
    sequences: tuple[tuple[int, ...], ...]  # of two ids or more

    @classmethod
    def of(cls, settings: Mapping[str, Any], eos_ids: Sequence[int], file: str, vocab_size: int) -> Self:
        """Read them from bad_words_ids, suppress_tokens and begin_suppress_tokens; raise ModelError for an id that does
        not exist. A bad word that is one of `eos_ids` does not count, as in transformers."""
        ends = [[eos_id] for eos_id in eos_ids]
        words = [tuple(words) for words in settings.get("bad_words_ids", []) if words not in ends]
        never, first = settings.get("suppress_tokens", []), settings.get("begin_suppress_tokens", [])
        for token_id in (*never, *first, *chain.from_iterable(words)):
            in_vocabulary(token_id, f"{file} suppresses an id that does not exist", vocab_size)
        return cls(
            always=tuple(sorted({word[0] for word in words if len(word) == 1} | set(never))),
            first=tuple(first),
            sequences=tuple(word for word in words if len(word) > 1),
        )


def _required_id(settings: Mapping[str, Any], name: str, vocab_size: int) -> int:
    token_id = _id(settings, name, vocab_size)
    if token_id is None:
        raise ModelError(f"neither config.json nor generation_config.json says which id is {name}")
    return token_id


def _id(settings: Mapping[str, Any], name: str, vocab_size: int) -> int | None:
    value = settings.get(name)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(f"{name} is {json.dumps(value)}; kvjobs supports a single id")
    return in_vocabulary(value, name, vocab_size)


def _max_new_tokens(settings: Mapping[str, Any], max_positions: int) -> int:
    """The bound on generated tokens. `max_length` counts the start token, `max_new_tokens` does not.

    A `max_length` of 20 does not count it either: 20 is the default of transformers, which then assumes that no limit
    is set, and generates 20 tokens unless the positions end before (generation/utils.py, `_prepare_generated_length`).
    """
    if settings.get("max_length") == _DEFAULT_MAX_LENGTH:
        settings = {"max_new_tokens": min(_DEFAULT_MAX_LENGTH, max_positions - 1), **settings}
    longest = settings.get("max_new_tokens", settings.get("max_length", max_positions + 1) - 1)
    return max(1, min(int(longest), max_positions))


def whole_number(settings: Mapping[str, Any], name: str, default: int, *, at_least: int = 0) -> int:
    """The setting `name` as a whole number; raise ValueError if it is none, or below `at_least`."""
    value = settings.get(name, default)
    if type(value) is not int or value < at_least:
        raise ValueError(f"{name} is {json.dumps(value)}, and has to be a whole number from {at_least} on")
    return value


def penalty(settings: Mapping[str, Any]) -> float:
    """The repetition penalty, 1.0 unless it is set; raise ValueError where it is no factor."""
    value = float(settings.get("repetition_penalty", 1.0))
    if not 0 < value < math.inf:
        raise ValueError(f"repetition_penalty is {json.dumps(value)}, and has to be a number above 0")
    return value


def in_vocabulary(token_id: int, name: str, vocab_size: int) -> int:
    """The id; raise ModelError where the model has no logit for it."""
    if not 0 <= token_id < vocab_size:
        raise ModelError(f"{name}: {token_id}; the graph has logits for ids below {vocab_size}")
    return token_id

"""
The rules by which a causal model continues a prompt: set by its generation_config.json (or, where there is none,
config.json), and completed by the options of a job.

The options of a job decide length and sampling, so the file's own settings of these do not count: a job without a
temperature gives what `generate(do_sample=False)` of transformers gives. A setting that would change those tokens and
is not implemented raises ModelError.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from jobs.tasks.generate import GenerateOptions
from worker.engine.search.generation_config import (
    ForbiddenIds,
    in_vocabulary,
    penalty,
    refuse_unsupported,
    whole_number,
)
from worker.engine.search.sampling import Sampling as Sampling
from worker.models.file_names import CONFIG, GENERATION_CONFIG
from worker.models.json_file import read_json

# Settings that the options of a job decide; their values in the file are ignored.
_DECIDED = frozenset({"do_sample", "stop_strings"})
# Settings that count a prompt's tokens too, force one, or keep several continuations: no published causal model needs
# them.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "min_length": (None, 0),
    "num_beams": (None, 1),
}


@dataclass(frozen=True, slots=True)
class OwnRules:
    """What a prompt has in place of the rules of its run."""

    max_new_tokens: int
    seed: int  # where tokens are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationRules:
    """The rules of one run. Lengths count generated tokens, the one that ends the continuation included."""

    eos_ids: tuple[int, ...] = ()  # each ends a continuation; none: it ends at its length
    max_new_tokens: int | None = None  # None: as many as the model has positions
    min_new_tokens: int = 0  # until then none of `eos_ids` is allowed
    suppressed_ids: tuple[int, ...] = ()  # never generated
    begin_suppressed_ids: tuple[int, ...] = ()  # never generated as the first token
    bad_sequences: tuple[tuple[int, ...], ...] = ()  # sequences of two ids or more that are never generated
    repetition_penalty: float = 1.0  # of tokens of the prompt and of the continuation
    no_repeat_ngram_size: int = 0
    renormalize_logits: bool = False
    stop_texts: tuple[str, ...] = ()  # each ends a continuation
    sampling: Sampling | None = None  # None: greedy search

    @property
    def first_free_step(self) -> int:
        return 0

    @property
    def is_plain(self) -> bool:
        """Whether every token is the most likely one."""
        changes = (self.suppressed_ids, self.begin_suppressed_ids, self.bad_sequences, self.no_repeat_ngram_size)
        return self.sampling is None and self.repetition_penalty == 1.0 and not any((*changes, self.min_new_tokens))

    def with_options(self, options: GenerateOptions) -> Self:
        """These rules of a model, completed with the options of a job."""
        sampling = None
        if options.temperature:
            sampling = Sampling(options.temperature, options.top_p, options.top_k, options.seed)
        penalty, ngram_size = options.repetition_penalty, options.no_repeat_ngram_size
        return dataclasses.replace(
            self,
            max_new_tokens=options.max_new_tokens,
            repetition_penalty=self.repetition_penalty if penalty is None else penalty,
            no_repeat_ngram_size=self.no_repeat_ngram_size if ngram_size is None else ngram_size,
            stop_texts=tuple(dict.fromkeys((*self.stop_texts, *options.stop))),
            sampling=sampling,
        )

    def with_end(self, eos_id: int | None) -> Self:
        """These rules, with one more id that ends a continuation."""
        if eos_id is None or eos_id in self.eos_ids:
            return self
        return dataclasses.replace(self, eos_ids=(*self.eos_ids, eos_id))


def rules_in(folder: Path, vocab_size: int) -> ContinuationRules:
    """The rules that the files of a model folder set (`read_continuation_rules`)."""
    settings = folder / GENERATION_CONFIG
    generation = read_json(settings) if settings.is_file() else None
    config = folder / CONFIG
    return read_continuation_rules(read_json(config) if config.is_file() else {}, generation, vocab_size=vocab_size)


def read_continuation_rules(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, *, vocab_size: int
) -> ContinuationRules:
    """The rules that config.json and generation_config.json (None: there is none) set together; raise ModelError for
    a value that is not valid.

    As in transformers, generation_config.json alone holds the settings if it exists; config.json adds only the ids that
    end a continuation, where it names none.
    """
    file = "config.json" if generation is None else "generation_config.json"
    try:
        return _read(config, generation, file, vocab_size)
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{file} holds a setting that cannot be understood: {error}") from error


def _read(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, file: str, vocab_size: int
) -> ContinuationRules:
    settings = {
        key: value for key, value in (config if generation is None else generation).items() if value is not None
    }
    refuse_unsupported(settings, file, _DECIDED)
    for name, harmless in _REFUSED.items():
        if settings.get(name) not in harmless:
            raise ModelError(
                f"{file} sets {name} = {json.dumps(settings[name])}, which kvjobs does not implement for causal models "
                "and which would change the continuation: remove it, or use another model"
            )
    ends = settings.get("eos_token_id", config.get("eos_token_id"))
    eos_ids = tuple(dict.fromkeys(ends if isinstance(ends, list) else [] if ends is None else [ends]))
    for token_id in eos_ids:
        in_vocabulary(token_id, "eos_token_id", vocab_size)
    forbidden = ForbiddenIds.of(settings, eos_ids, file, vocab_size)
    stops = settings.get("stop_strings", [])
    return ContinuationRules(
        eos_ids=eos_ids,
        min_new_tokens=whole_number(settings, "min_new_tokens", 0),
        suppressed_ids=forbidden.always,
        begin_suppressed_ids=forbidden.first,
        bad_sequences=forbidden.sequences,
        repetition_penalty=penalty(settings),
        no_repeat_ngram_size=whole_number(settings, "no_repeat_ngram_size", 0),
        renormalize_logits=settings.get("renormalize_logits", False),
        stop_texts=(stops,) if isinstance(stops, str) else tuple(stops),
    )

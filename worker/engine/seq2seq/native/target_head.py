"""
The ids that a model's head gives logits for: all of the target vocabulary, or those that the target language needs.

A search works with row numbers of the head; everything around it works with vocabulary ids.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Ids
from worker.engine.search.required_phrases import Phrases


@dataclass(frozen=True, slots=True)
class TargetHead:
    """Converts row numbers of the head to vocabulary ids, and back."""

    ids: Ids | None  # (V,): the vocabulary id of each row, ascending; None: rows are ids
    _ids: tuple[int, ...] = ()  # the same as a tuple: faster to index for the few ids of a hypothesis

    @classmethod
    def of(cls, ids: Sequence[int] | None) -> Self:
        """The head with `ids`, the `head_ids` of a manifest; None: the head has all ids."""
        return cls(None) if ids is None else cls(np.asarray(ids, np.int64), tuple(ids))

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these vocabulary ids the head has."""
        return np.ones(ids.shape, np.bool_) if self.ids is None else np.isin(ids, self.ids)

    def to_rows(self, ids: Ids) -> Ids:
        """Vocabulary ids, all of which the head has -> rows of the head."""
        return ids if self.ids is None else np.searchsorted(self.ids, ids)

    def to_ids(self, rows: Ids) -> Ids:
        """Rows of the head -> vocabulary ids."""
        return rows if self.ids is None else self.ids[rows]

    def hypothesis(self, hypothesis: Hypothesis) -> Hypothesis:
        """A hypothesis in rows of the head -> the same in vocabulary ids."""
        if self.ids is None:
            return hypothesis
        ids = tuple(self._ids[row] for row in hypothesis.ids)
        return Hypothesis(ids, hypothesis.log_prob, hypothesis.score, hypothesis.truncated)

    def rules(self, rules: GenerationConfig) -> GenerationConfig:
        """The rules of a search, in vocabulary ids -> the same rules in rows of the head.

        Ids that the head lacks need not be forbidden, and a phrase that has one cannot be required; raises ModelError
        where the rules force one.
        """
        if self.ids is None:
            return rules
        return dataclasses.replace(
            rules,
            start_id=self._row(rules.start_id, "decoder_start_token_id"),
            eos_id=self._row(rules.eos_id, "eos_token_id"),
            forced_bos_id=self._forced_row(rules.forced_bos_id, "forced_bos_token_id"),
            forced_eos_id=self._forced_row(rules.forced_eos_id, "forced_eos_token_id"),
            suppressed_ids=self._rows(rules.suppressed_ids),
            begin_suppressed_ids=self._rows(rules.begin_suppressed_ids),
            segments=tuple(
                dataclasses.replace(
                    segment, prefix=self._rows(segment.prefix), required=tuple(map(self._phrases, segment.required))
                )
                for segment in rules.segments
            ),
            bad_sequences=self._whole(rules.bad_sequences),
            continuing_ids=self._rows(rules.continuing_ids),
        )

    def _whole(self, sequences: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        """The rows of those sequences of which the head has every id."""
        rows = map(self._rows, sequences)
        return tuple(some for some, sequence in zip(rows, sequences, strict=True) if len(some) == len(sequence))

    def _phrases(self, phrases: Phrases) -> Phrases:
        """Those of which the head has every id."""
        rows = (phrase._replace(ids=self._rows(phrase.ids)) for phrase in phrases)
        return tuple(some for some, phrase in zip(rows, phrases, strict=True) if len(some.ids) == len(phrase.ids))

    def _forced_row(self, token_id: int | None, name: str) -> int | None:
        return None if token_id is None else self._row(token_id, name)

    def _row(self, token_id: int, name: str) -> int:
        rows = self._rows((token_id,))
        if not rows:
            raise ModelError(
                f"{name} is {token_id}, which is not among the ids that the model's head keeps: add the model again "
                "with --head full"
            )
        return rows[0]

    def _rows(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The rows of `ids`; ids that the head lacks are left out."""
        assert self.ids is not None
        known = self.ids
        rows = np.searchsorted(known, ids)
        return tuple(
            int(row) for row, token_id in zip(rows, ids, strict=True) if row < len(known) and known[row] == token_id
        )

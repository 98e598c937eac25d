"""
The ids that a model's head can say: all of the target vocabulary, or those that the target language needs.

A search counts in places of the head, and everything around it in ids of the vocabulary.
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


@dataclass(frozen=True, slots=True)
class TargetHead:
    """Places to ids, and back."""

    ids: Ids | None  # (V,): the id of each place, ascending; None: places are ids

    @classmethod
    def of(cls, ids: Sequence[int] | None) -> Self:
        """As a manifest says it."""
        return cls(None if ids is None else np.asarray(ids, np.int64))

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these ids can come out."""
        return np.ones(ids.shape, np.bool_) if self.ids is None else np.isin(ids, self.ids)

    def to_places(self, ids: Ids) -> Ids:
        """Where ids stand that it has."""
        return ids if self.ids is None else np.searchsorted(self.ids, ids)

    def to_ids(self, places: Ids) -> Ids:
        """What the decoder is fed."""
        return places if self.ids is None else self.ids[places]

    def hypothesis(self, found: Hypothesis) -> Hypothesis:
        """The same, in ids."""
        if self.ids is None:
            return found
        return dataclasses.replace(found, ids=tuple(self.ids[list(found.ids)].tolist()))

    def rules(self, rules: GenerationConfig) -> GenerationConfig:
        """The same, in places. What the head cannot say need not be forbidden; raises ModelError where it has to be
        said."""
        if self.ids is None:
            return rules
        bad = (self._places(sequence) for sequence in rules.bad_sequences)
        return dataclasses.replace(
            rules,
            start_id=self._place(rules.start_id, "decoder_start_token_id"),
            eos_id=self._place(rules.eos_id, "eos_token_id"),
            forced_bos_id=self._forced(rules.forced_bos_id, "forced_bos_token_id"),
            forced_eos_id=self._forced(rules.forced_eos_id, "forced_eos_token_id"),
            suppressed_ids=self._places(rules.suppressed_ids),
            begin_suppressed_ids=self._places(rules.begin_suppressed_ids),
            bad_sequences=tuple(
                places
                for places, sequence in zip(bad, rules.bad_sequences, strict=True)
                if len(places) == len(sequence)
            ),
        )

    def _forced(self, token_id: int | None, name: str) -> int | None:
        return None if token_id is None else self._place(token_id, name)

    def _place(self, token_id: int, name: str) -> int:
        places = self._places((token_id,))
        if not places:
            raise ModelError(
                f"{name} is {token_id}, which is not among the ids that the model's head keeps: add the model again "
                "with --head full"
            )
        return places[0]

    def _places(self, ids: Sequence[int]) -> tuple[int, ...]:
        assert self.ids is not None
        known = self.ids
        places = np.searchsorted(known, ids)
        return tuple(
            int(place)
            for place, token_id in zip(places, ids, strict=True)
            if place < len(known) and known[place] == token_id
        )

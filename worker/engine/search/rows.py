"""What greedy and beam search do alike with rows that begin and end at different times."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.logit_rules import Ids

Flags = NDArray[np.bool_]

RowOrder = (
    Ids | None
)  # row i continues what was row moves[i], and rows that are not named are gone; None: nothing moves

_ROOM = 32  # tokens that a new sentence finds room for


def forced_ids(rules: GenerationConfig, steps: Ids) -> Ids | None:
    """The only token that may come at each step, -1 where any may; None where none is forced. `steps` count from 0."""
    forced = np.full(len(steps), -1)
    if rules.forced_bos_id is not None:
        forced[steps == 0] = rules.forced_bos_id
    if rules.forced_eos_id is not None:
        forced[steps + 1 == rules.max_new_tokens] = rules.forced_eos_id
    return forced if (forced >= 0).any() else None


def close_ranks(stays: Flags) -> Ids:
    """The order of the rows that stay, moving as few as can be: the last ones fill the gaps.

    stays  1 0 1 0 1 1   ->   0 5 2 4
    """
    count = int(stays.sum())
    rows = np.arange(count)
    gaps = np.flatnonzero(~stays[:count])
    rows[gaps] = (np.flatnonzero(stays[count:]) + count)[::-1]
    return rows


def with_room(tokens: NDArray[Any], index: int) -> NDArray[Any]:
    """`tokens` with room for one at `index` of the last axis."""
    room = tokens.shape[-1]
    if index < room:
        return tokens
    more = np.zeros((*tokens.shape[:-1], max(_ROOM, room, index + 1 - room)), tokens.dtype)
    return np.concatenate((tokens, more), axis=-1)

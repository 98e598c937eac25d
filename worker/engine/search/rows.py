"""Functions that greedy and beam search share: rows of sentences that begin and end at different times."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.logit_rules import Ids

Flags = NDArray[np.bool_]

# Row i gets the content of row order[i]; rows that are not in the order are dropped. None: nothing changes.
RowOrder = Ids | None

_CAPACITY = 32  # tokens allocated for a new sentence


def forced_ids(rules: GenerationConfig, steps: Ids, sentences: Ids) -> Ids | None:
    """The forced id at each step (R,) of these sentences (R,), -1 where any is allowed; None where none is forced at
    all. `steps` count from 0."""
    forced = np.full(len(steps), -1)
    if rules.forced_bos_id is not None:
        forced[steps == 0] = rules.forced_bos_id
    first = rules.first_free_step
    for row in np.flatnonzero((steps >= first) & (steps < first + rules.longest_prefix)).tolist():
        prefix = rules.segments[sentences[row]].prefix
        if steps[row] - first < len(prefix):
            forced[row] = prefix[steps[row] - first]
    if rules.forced_eos_id is not None:
        forced[steps + 1 == rules.max_new_tokens] = rules.forced_eos_id
    return forced if (forced >= 0).any() else None


def compact_rows(stays: Flags) -> Ids:
    """The order of the rows that stay, with as few moves as possible: the last ones fill the gaps.

    stays  1 0 1 0 1 1   ->   0 5 2 4
    """
    count = int(stays.sum())
    rows = np.arange(count)
    gaps = np.flatnonzero(~stays[:count])
    rows[gaps] = (np.flatnonzero(stays[count:]) + count)[::-1]
    return rows


def assign_rows(parents: Ids) -> Ids:
    """Choose a row of its sentence for each beam (n, k): the first beam that continues a parent keeps the parent's row,
    the others take free rows.

    parents  0 0 2 0   ->   0 1 2 3
    """
    k = parents.shape[1]
    alike = parents[:, :, None] == np.arange(k)  # (n, k, k): beam, row
    repeats = (parents[:, :, None] == parents[:, None, :]) & (np.arange(k)[:, None] > np.arange(k))
    later: Flags = repeats.any(axis=2)
    rows = parents.copy()
    rows[later] = np.nonzero(~alike.any(axis=1))[1]
    return rows


def with_capacity(tokens: NDArray[Any], index: int) -> NDArray[Any]:
    """`tokens`, enlarged if necessary so that `index` is valid on the last axis."""
    capacity = tokens.shape[-1]
    if index < capacity:
        return tokens
    more = np.zeros((*tokens.shape[:-1], max(_CAPACITY, capacity, index + 1 - capacity)), tokens.dtype)
    return np.concatenate((tokens, more), axis=-1)

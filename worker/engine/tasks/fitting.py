"""
Which hypothesis of each sentence makes a document that has at most so many characters.

    lengths of the hypotheses, scores -> the choice with the highest sum of scores among those that fit
                                      -> none fits: the shortest of each

A multiple-choice knapsack (Kellerer, Pferschy, Pisinger 2004, chapter 11), solved by dynamic programming over lengths.

Knows: lengths and scores. Does not know: texts, how sentences are joined.
"""

from collections.abc import Sequence

import numpy as np

MOST_CELLS = 1 << 22  # sentences x characters of a table; lengths of larger ones are rounded up to multiples


def best_within(lengths: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], room: int) -> list[int] | None:
    """For each sentence the index of a hypothesis: those with the highest sum of scores among all whose lengths sum to
    at most `room`; of equal ones the earlier. None: no choice fits."""
    room = min(room, sum(map(max, lengths)))
    if room < sum(map(min, lengths)):
        return None
    unit = max(1, -(-len(lengths) * (room + 1) // MOST_CELLS))
    sizes = [[-(-length // unit) for length in some] for some in lengths]
    room //= unit
    if room < sum(map(min, sizes)):
        return shortest(lengths, scores)  # by the true lengths it fits
    best = np.zeros(room + 1)  # (room + 1,): the highest sum of the sentences so far with at most so many characters
    chosen = np.zeros((len(sizes), room + 1), np.int16)
    for sentence, (some, gains) in enumerate(zip(sizes, scores, strict=True)):
        longer = np.full(room + 1, -np.inf)
        for index, (size, gain) in enumerate(zip(some, gains, strict=True)):
            if size <= room:
                sums = best[: room + 1 - size] + gain
                better = sums > longer[size:]
                longer[size:][better] = sums[better]
                chosen[sentence, size:][better] = index
        best = longer
    choice: list[int] = []
    for sentence in range(len(sizes) - 1, -1, -1):
        choice.append(int(chosen[sentence, room]))
        room -= sizes[sentence][choice[-1]]
    return choice[::-1]


def shortest(lengths: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> list[int]:
    """For each sentence the index of its shortest hypothesis; of equally long ones the one with the highest score."""
    return [
        min(range(len(some)), key=lambda index: (some[index], -gains[index]))
        for some, gains in zip(lengths, scores, strict=True)
    ]

"""
How alike two orders of the same query are.

    overlap@k    share of the first k that both have; of the shorter list where it has fewer than k
    RBO          rank-biased overlap, extrapolated (Webber, Moffat and Zobel 2010, ACM TOIS 28(4), equation 32): the
                 overlap at each depth, where depth d counts p times as much as depth d - 1. With p = 0.9 the first ten
                 ranks have 86 % of the weight. 1: the same order; 0: nothing in common. Lists may differ in length.
    Kendall tau  of the documents that both have: pairs in the same order minus pairs in another, over all pairs. 1: the
                 same order; -1: reversed. Every pair counts alike, at the top and at the end.

Knows: lists of distinct ids. Does not know: scores, queries.
"""

from bisect import bisect, insort
from collections.abc import Sequence

PERSISTENCE = 0.9  # p of RBO
DEPTH = 10  # k of overlap@k


def overlap_at(a: Sequence[str], b: Sequence[str], depth: int = DEPTH) -> float:
    """The share of the first `depth` that both orders have, 0 .. 1."""
    most = min(depth, max(len(a), len(b)))
    return len(set(a[:depth]) & set(b[:depth])) / most if most else 1.0


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float = PERSISTENCE) -> float:
    """RBO_ext of two lists of distinct ids, 0 .. 1; 1 for two empty lists, 0 where only one is empty."""
    short, long = sorted((a, b), key=len)
    if not short:
        return float(not long)
    seen: set[str] = set()
    overlap = 0  # ids that both lists have up to this depth
    overlap_at_short = 0
    total = 0.0
    weight = 1.0
    for depth in range(1, len(long) + 1):
        for candidate in (*long[depth - 1 : depth], *short[depth - 1 : depth]):
            if candidate in seen:
                overlap += 1
            seen.add(candidate)
        weight *= p
        total += overlap / depth * weight
        if depth == len(short):
            overlap_at_short = overlap
        if depth > len(short):  # what the short list would still share if it went on as before
            total += overlap_at_short * (depth - len(short)) / (len(short) * depth) * weight
    rest = (overlap - overlap_at_short) / len(long) + overlap_at_short / len(short)
    return (1 - p) / p * total + rest * weight


def kendall_tau(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Kendall's tau over the ids that both lists have, -1 .. 1; None where these are fewer than two."""
    ranks_in_b = {candidate: rank for rank, candidate in enumerate(b)}
    order = [ranks_in_b[candidate] for candidate in a if candidate in ranks_in_b]
    if len(order) < 2:
        return None
    seen: list[int] = []
    inversions = 0
    for rank in order:
        inversions += len(seen) - bisect(seen, rank)
        insort(seen, rank)
    pairs = len(order) * (len(order) - 1) // 2
    return 1 - 2 * inversions / pairs


def mean_rank_change(a: Sequence[str], b: Sequence[str]) -> float | None:
    """By how many ranks a document moves on average, of those that both have (Spearman's footrule over their number);
    None where there is none."""
    ranks_in_b = {candidate: rank for rank, candidate in enumerate(b)}
    moves = [abs(rank - ranks_in_b[candidate]) for rank, candidate in enumerate(a) if candidate in ranks_in_b]
    return sum(moves) / len(moves) if moves else None

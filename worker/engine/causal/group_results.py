"""Results of groups whose sequences are read in several calls, in any order."""

from collections.abc import Sequence

from worker.engine.causal.protocol import Group, LogProbs


class GroupResults:
    """Collects log-probabilities until a group is complete."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self._incomplete: dict[int, dict[int, LogProbs]] = {}  # by group, by suffix

    def add(self, group: int, suffix: int, log_probs: LogProbs) -> list[LogProbs] | None:
        """Add the log-probabilities of one suffix. Returns the arrays of all suffixes of the group, in their order,
        once the last one is there; else None."""
        results = self._incomplete.setdefault(group, {})
        results[suffix] = log_probs
        if len(results) < len(self._groups[group].suffixes):
            return None
        del self._incomplete[group]
        return [results[suffix] for suffix in range(len(results))]

"""The cache policy of a job as a number of decoding steps."""

from jobs.tasks.shared_options import CachePolicy

NEVER_CACHED = 1 << 30  # steps: more than any search has


def uncached_steps(policy: CachePolicy) -> int:
    """How many steps, counted from the first, run the whole prefix without the cache: none, N or all."""
    match policy.mode:
        case "off":
            return NEVER_CACHED
        case "hybrid":
            return max(1, policy.uncached_steps)
        case _:
            return 0

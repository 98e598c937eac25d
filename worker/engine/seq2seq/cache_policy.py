"""What a cache policy means in steps."""

from jobs.spec import CachePolicy

NEVER_CACHED = 1 << 30  # steps: more than any search makes


def uncached_steps(policy: CachePolicy) -> int:
    """How many steps at the beginning of a search run the whole prefix: none, or N, or all."""
    match policy.mode:
        case "off":
            return NEVER_CACHED
        case "hybrid":
            return max(1, policy.uncached_steps)
        case _:
            return 0

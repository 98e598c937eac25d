"""The fixtures of tests/end_to_end and tests/integration: `kvjobs` as a user runs it, and workers with a Redis."""

from tests.integration.conftest import bulletins, fleet, machine, redis_server

__all__ = ["bulletins", "fleet", "machine", "redis_server"]

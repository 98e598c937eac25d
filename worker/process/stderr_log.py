"""The log of a worker's processes: lines on standard error."""

import logging

from jobs.settings import Settings


def log_to_stderr(settings: Settings) -> None:
    """Write the log lines of this process from the level in the settings on."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")

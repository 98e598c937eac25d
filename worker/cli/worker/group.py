"""`kvjobs worker` with its subcommands."""

from worker.cli.worker.ls import ls
from worker.cli.worker.ping import ping
from worker.cli.worker.run import worker

worker.add_command(ls)
worker.add_command(ping)

__all__ = ["worker"]

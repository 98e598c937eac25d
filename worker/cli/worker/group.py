"""`kvjobs worker` with its subcommands."""

from worker.cli.worker.drain import drain
from worker.cli.worker.ls import ls
from worker.cli.worker.ping import ping
from worker.cli.worker.request import pause, resume
from worker.cli.worker.run import worker

worker.add_command(ls)
worker.add_command(ping)
for command in (pause, resume, drain):
    worker.add_command(command)

__all__ = ["worker"]

"""The parent process of the embedded worker of `submit --wait`, which starts before the command has loaded its modules.

Its child starts at once, so that command, parent and child load their modules side by side: most of the time
of a small job is spent on that. Parent and child use the database only after the command has written the job's number
to the parent's standard input; an empty line wakes the lanes. When that pipe ends, both processes end.
"""

import logging
import os
import sys
import threading

from jobs.dispatch.worker_arguments import WorkerArguments
from worker.process.child_handle import Child

LOOK_EVERY_S = 0.2


def main() -> int:
    """Supervise the child until standard input ends; the exit code."""
    arguments = WorkerArguments.from_argument(sys.argv[1])
    stop, child = threading.Event(), Child(arguments)
    child.start_early()
    # Loaded while the child loads: SQLAlchemy is among them.
    from jobs.errors import KvjobsError
    from worker.process.connect import connect_with_retry
    from worker.process.work_log import log_to_stderr
    from worker.supervisor import stop_on_signals, supervise

    log_to_stderr(arguments.settings)
    stop_on_signals(stop, child)
    has_job = threading.Event()
    threading.Thread(target=_listen, args=(child, has_job, stop), daemon=True).start()
    while not has_job.wait(LOOK_EVERY_S):
        if stop.is_set():
            child.end()
            return 0
    try:
        database = connect_with_retry(arguments.settings, stop.wait)
        if database is None:
            child.end()
            return 0
        return supervise(arguments, database, child, stop)
    except KvjobsError as error:
        print(f"kvjobs worker: {error}", file=sys.stderr)
        child.end()
        return error.exit_code


def _listen(child: Child, has_job: threading.Event, stop: threading.Event) -> None:
    """Read the number of the job, then an empty line for each wake-up, then the end of the pipe."""
    for line in sys.stdin.buffer:
        if line.strip():
            child.first_job = int(line)
            has_job.set()
        else:
            child.wake()
    stop.set()
    child.ask_to_end()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # the thread that reads standard input would abort the interpreter's end

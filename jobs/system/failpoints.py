"""Places where a test can make a process die, stop or wait: named in the code, chosen by an environment variable.

    KVJOBS_FAILPOINTS="before-commit:kill,after-lease:sleep=2:3" KVJOBS_FAILPOINTS_LOG=/tmp/hits

`name:action[:times]`: the first `times` processes (default 1) that reach the place `name` do the action: `kill`
(SIGKILL to itself), `exit` (like a library that calls exit), `stop` (SIGSTOP), `sleep=SECONDS`. Each time is a line in
the log, which all processes share, so that a restarted worker does not die again. Without the variable a failpoint
costs one check of a constant.
"""

import fcntl
import os
import signal
import threading
import time

NAMES = (
    "after-lease",  # a shard is leased, nothing is computed
    "after-compute",  # a batch is computed, nothing is written
    "before-insert",  # in the transaction of `record`, after the fence was checked
    "before-commit",  # ... everything is written, nothing is committed
    "after-commit",  # ... committed; the worker does not know yet
    "in-finish",  # the shard's last batch is written, the shard is not closed
    "before-fold",  # the counters of a job are locked, none of its deltas is folded
    "in-fold",  # ... deltas are deleted and added to the sums, nothing is committed
    "after-fold",  # ... committed; who folds does not know yet
    "in-hand-on",  # the documents of a closed shard are handed on to the next stage, nothing is committed
    "in-cancel",  # a cancel is requested, no document is cancelled yet
    "in-retry",  # documents are opened again; shards that closed at that moment were not looked at again
    "after-ingest-batch",  # a batch of documents is committed
    "before-append-commit",  # documents are appended to an open job, nothing is committed
    "after-append",  # ... committed; who appended does not know yet
    "in-prune",  # a batch of rows of a pruned job is deleted
    "in-give-back",  # the rows are gone; some pages of the SQLite file are given back to the disk
    "after-webhook",  # a webhook was sent and answered, nothing is noted
    "before-ingest-finish",  # all documents are written, no worker sees the job yet
    "after-batch-submit",  # the job of a batch of OpenAI's API is made, its row does not say so yet
    "in-written-file",  # of a folder of files: the bytes of one are written, it has not its name yet
    "after-written-file",  # ... it has, and others are to come
    "before-batch-end",  # ... the job has ended and its files are written, its row does not say so yet
)


def _parse(text: str) -> dict[str, tuple[str, int]]:
    points = {}
    for point in filter(None, text.split(",")):
        name, action, *times = point.split(":")
        if name not in NAMES:
            raise SystemExit(f"KVJOBS_FAILPOINTS: there is no place {name!r}; there are {', '.join(NAMES)}")
        points[name] = (action, int(times[0]) if times else 1)
    if points and "KVJOBS_FAILPOINTS_LOG" not in os.environ:
        raise SystemExit("KVJOBS_FAILPOINTS needs KVJOBS_FAILPOINTS_LOG, the file in which each hit is counted")
    return points


_POINTS = _parse(os.environ.get("KVJOBS_FAILPOINTS", ""))


def failpoint(name: str) -> None:
    """Do the action that the environment sets for this place; usually nothing."""
    if _POINTS and name in _POINTS:
        action, times = _POINTS[name]
        if _is_due(f"{name}:{action}", times):
            _act(action)


def _is_due(line: str, times: int) -> bool:
    """Whether the log has this line fewer than `times` times; if so, append it."""
    with open(os.environ["KVJOBS_FAILPOINTS_LOG"], "a+", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.seek(0)
        due = sum(written.startswith(line) for written in log) < times
        if due:
            log.write(f"{line} {os.getpid()}\n")
        return due


def _act(action: str) -> None:
    verb, _, amount = action.partition("=")
    if verb == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "exit":
        os._exit(99)
    elif verb == "stop":
        # To this thread: a signal to the process may be delivered to another thread first, while this one goes on.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif verb == "sleep":
        time.sleep(float(amount))
    else:
        raise SystemExit(f"KVJOBS_FAILPOINTS: {action!r} is neither kill, exit, stop nor sleep=SECONDS")

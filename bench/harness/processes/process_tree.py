"""Processor time of a process and all that it started, on Linux."""

import os
from pathlib import Path


def tree_cpu_s(pid: int) -> float:
    """Seconds so far, of the process and of its descendants; those that have ended count once they were waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return 0.0  # it has just ended
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # utime, stime, cutime, cstime
    return own + sum(map(tree_cpu_s, children))

"""Whether the compiled kernels are right on this processor: tried in a separate process, which loads numpy and
onnxruntime, and which a wrong kernel may end."""

import subprocess
import sys

from jobs.process import how_it_ended

PROGRAM = """
from worker.kernels.compiled import why_distrusted
from worker.kernels.library import open_library
print(why_distrusted(open_library()) or "")
"""


def try_kernels() -> str | None:
    """Why nothing uses the kernels that were compiled, a sentence; None: they are right."""
    # -P: a folder `worker` in the user's current directory must not be imported.
    tried = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return tried.stdout.strip() or None
    last = (tried.stderr.strip().splitlines() or [""])[-1]
    return f"distrusted: the process that tries them {how_it_ended(tried.returncode)}" + (f": {last}" if last else "")

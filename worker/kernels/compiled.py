"""
The compiled kernels of this process, if they are right on its processor.

They are compiled where kvjobs is installed, by whatever compiler is there. Graphs, searches and caches all ask here, so
that either all of them rely on the kernels or none does.
"""

import functools
import logging

from worker.kernels.functions import Kernels
from worker.kernels.library import NoKernelsError, open_library
from worker.kernels.probe import wrong_kernels

log = logging.getLogger(__name__)


@functools.cache
def compiled_kernels() -> Kernels | None:
    """Asked once per process, in a few milliseconds. None: there are none, or some give other results than numpy."""
    try:
        kernels = Kernels(open_library())
    except NoKernelsError:
        return None
    wrong = wrong_kernels(kernels)
    if wrong:
        log.warning(
            "the compiled kernels (%s) are not used, so small models run more slowly: on this processor they are wrong "
            "in %s; install kvjobs again, on this machine",
            kernels.library.instruction_set,
            ", ".join(wrong),
        )
        return None
    return kernels

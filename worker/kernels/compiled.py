"""
The compiled kernels of this process, if they are right on its processor.

They are compiled where kvjobs is installed, by whatever compiler is there. Graphs, searches and caches all ask here, so
that either all of them rely on the kernels or none does.
"""

import functools
import logging

from worker.kernels.functions import Kernels
from worker.kernels.library import INSTALL_AGAIN, Library, NoKernelsError, open_library
from worker.kernels.probe import wrong_kernels

log = logging.getLogger(__name__)


@functools.cache
def compiled_kernels() -> Kernels | None:
    """The kernels, checked once per process, in a few milliseconds; None if there are none, or if some give other
    results than numpy."""
    try:
        library = open_library()
    except NoKernelsError:
        return None
    why = why_distrusted(library)
    if why:
        log.warning("the compiled kernels are not used: they are %s; %s", why, INSTALL_AGAIN)
        return None
    return Kernels(library)


def why_distrusted(library: Library) -> str | None:
    """A sentence that names the kernels that give other results than numpy; None if all are right."""
    wrong = wrong_kernels(Kernels(library))
    if not wrong:
        return None
    return (
        f"distrusted, so nothing uses them and small models run more slowly: those for {library.instruction_set} are "
        f"wrong on this processor, in {', '.join(wrong)}"
    )

"""The compiled kernels of this process."""

import functools

from worker.kernels.functions import Kernels
from worker.kernels.library import NoKernelsError, open_library


@functools.cache
def compiled_kernels() -> Kernels | None:
    """Those of this process; None: there are none."""
    try:
        return Kernels(open_library())
    except NoKernelsError:
        return None

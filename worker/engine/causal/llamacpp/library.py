"""llama.cpp, loaded once in a process; its messages go to our log at debug level, never to the terminal."""

import ctypes
import logging
import os
import threading
from functools import cache
from typing import Any

from jobs.errors import ModelError
from jobs.system.requirements import install_command
from jobs.text.formatting import visible

log = logging.getLogger(__name__)

LIBRARY, PACKAGE = "llama_cpp", "llama-cpp-python"  # as it is imported, and installed
_ERROR = 4  # GGML_LOG_LEVEL_ERROR in ggml/include/ggml.h
_MAX_MESSAGE = 300  # characters

_first_error = threading.local()  # .text: the first error that llama.cpp logged in this thread


class NotInstalledError(ModelError):
    """llama-cpp-python is missing, or cannot be loaded."""


@cache
def llama_cpp() -> Any:
    """The module with the functions of llama.h. Raises NotInstalledError."""
    # Where llama.cpp ends a process, it would first attach a debugger to it, which prints pages and may not come back.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    try:
        from llama_cpp import llama_cpp as functions
    except ImportError:
        raise NotInstalledError(
            f"GGUF files run with llama.cpp, whose package is not installed: {install_command(PACKAGE)}"
        ) from None
    except (OSError, RuntimeError) as error:  # the shared library is for another processor, or lacks one that it needs
        raise NotInstalledError(f"the package {PACKAGE} cannot be loaded ({error}): install it again") from error
    functions.llama_log_set(_ON_MESSAGE, ctypes.c_void_p(0))
    functions.llama_backend_init()
    return functions


def forget_error() -> None:
    """Forget the message that `first_error` returns."""
    _first_error.text = ""


def first_error() -> str:
    """The first error that llama.cpp logged in this thread since `forget_error`: a line, maybe with text of a file.

    The first, because those that follow say less: failed to load model."""
    message: str = getattr(_first_error, "text", "")
    return message


def _log_message(level: int, text: bytes, data: Any) -> None:
    """Keep the first error. llama.cpp calls this function, from any of its threads."""
    line = visible(text.decode("utf-8", "replace").strip())[:_MAX_MESSAGE]
    if level == _ERROR and line and not first_error():
        _first_error.text = line
    if line:
        log.debug("%s", line)


# A callback lives as long as its name, and llama.cpp calls it until the end of the process.
_ON_MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_log_message)

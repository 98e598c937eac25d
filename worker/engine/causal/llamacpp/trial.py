"""Whether llama.cpp can load a model: tried in a separate process, since a file that it does not expect can end it."""

import signal
import subprocess
import sys
from pathlib import Path

from jobs.errors import ModelError
from worker.engine.causal.llamacpp.library import llama_cpp

DEADLINE_S = 900.0  # tens of gigabytes from a slow disk

_REFUSED = 65  # EX_DATAERR, sysexits.h


def try_gguf(folder: Path, deadline_s: float = DEADLINE_S) -> None:
    """Load the model in `folder` in another process and read a text; raise ModelError where that fails, and
    NotInstalledError where llama.cpp is missing."""
    llama_cpp()
    # -P: a folder `worker` in the user's current directory must not be imported.
    command = [sys.executable, "-P", "-m", "worker.engine.causal.llamacpp.trial", str(folder)]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"{folder} takes llama.cpp more than {deadline_s:.0f} s to load") from None
    if tried.returncode == _REFUSED:
        raise ModelError(tried.stdout.decode("utf-8", "replace").strip())
    if tried.returncode:
        how = signal.Signals(-tried.returncode).name if tried.returncode < 0 else f"status {tried.returncode}"
        raise ModelError(
            f"{folder} ends the process of llama.cpp that loads it ({how}): the file is damaged, or needs another "
            "version of llama-cpp-python; download it again, or install the newest"
        )


def main(folder: Path) -> int:
    """Load the model, and read a few tokens; return the exit code, after the reason on standard output."""
    from worker.engine.causal.llamacpp.model import LlamaCppCausal
    from worker.engine.causal.llamacpp.tokenizer import LlamaCppTokenizer
    from worker.engine.causal.protocol import Group, read_all
    from worker.engine.runtime.run_context import RunContext

    try:
        model = LlamaCppCausal.open(folder)
        ids = LlamaCppTokenizer(model.network).encode("The first words.").ids[: model.max_positions]
        read_all(model.new_reader(), [Group((), (ids,))] if ids else [], RunContext())
    except ModelError as error:
        print(error)
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

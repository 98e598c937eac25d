"""Whether a tokenizer.json cuts text in bounded time: tried in a process that can be killed.

A tokenizer.json may hold regular expressions, and one that backtracks takes minutes for a line of a few thousand
letters; nothing can interrupt it, Ctrl-C neither. So it is tried before it is taken, on texts that such expressions are
slow for. (One that is slow for other texts alone ends the worker process that meets them: `hang_s`.)
"""

import subprocess
import sys
from pathlib import Path

from jobs.errors import ModelError

DEADLINE_S = 30.0

_LENGTH = 4_000  # characters: what takes time in the square of that passes, what takes time in its cube does not
_RUNS = (*"aA1 \n.!-_'=é中", "a1", "a ", "A.", "\r\n", "''")
_ENDS = ("", "\0")  # an expression that fails at the end of a run tries every other way to match it
_REGEX = b'"Regex"'  # the key of every expression in a tokenizer.json
_REFUSED = 65  # EX_DATAERR, sysexits.h


def try_tokenizer(folder: Path, deadline_s: float = DEADLINE_S) -> None:
    """Raise ModelError where the tokenizer of a model folder does not cut long runs of characters in `deadline_s`.

    What else may be wrong with it is not said here.
    """
    import orjson  # the other process does without

    file = folder / "tokenizer.json"
    try:
        content = file.read_bytes()
        said = orjson.loads(content) if _REGEX in content else {}
        parts = {name: said.get(name) for name in ("normalizer", "pre_tokenizer")}
    except (OSError, ValueError, AttributeError):
        return
    if not any(parts.values()):
        return
    # Without its vocabulary, which is no part of the expressions and takes the longest to load.
    alone = {"version": "1.0", **parts, "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}
    # -P: a folder named `worker` in the user's current directory must not be taken for ours.
    command = [sys.executable, "-P", "-m", "worker.text.tokenizer_trial"]
    try:
        tried = subprocess.run(command, input=orjson.dumps(alone), capture_output=True, timeout=deadline_s, check=False)
        why = f"gives up on a line of {_LENGTH:,} characters" if tried.returncode == _REFUSED else None
    except subprocess.TimeoutExpired:
        why = f"takes more than {deadline_s:.0f} s for a line of {_LENGTH:,} characters"
    if why is not None:
        raise ModelError(
            f"{file} holds a regular expression that {why}, because it tries too many ways to match it: take the "
            "tokenizer.json that the model's author published"
        )


def main() -> int:
    """Try the tokenizer that standard input describes; the exit code."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(sys.stdin.buffer.read())
    for run in _RUNS:
        for end in _ENDS:
            try:
                tokenizer.encode((run * _LENGTH)[:_LENGTH] + end)
            except Exception:  # not for the time that it takes
                return 0
            except BaseException:  # a panic in Rust: the library of expressions gives up after ten million tries
                return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether a tokenizer.json tokenizes text in bounded time: tried in a separate process, which can be killed.

A tokenizer.json may hold regular expressions, and one that backtracks takes minutes for a line of a few thousand
letters; nothing can interrupt it, not even Ctrl-C. So a tokenizer is tried before a model is added, on texts that are
slow for such expressions. (One that is slow only for other texts ends the worker process that hangs on them: `hang_s`.)
"""

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from jobs.errors import ModelError

DEADLINE_S = 30.0

_LENGTH = 4_000  # characters: quadratic time passes, cubic time does not
_RUNS = (*"aA1 \n.!-_'=é中", "a1", "a ", "A.", "\r\n", "''")
_ENDS = ("", "\0")  # an expression that fails at the end of a run backtracks
_REGEX = b'"Regex"'  # the key of an expression in a tokenizer.json
_REFUSED = 65  # EX_DATAERR, sysexits.h


def try_tokenizer(folder: Path, deadline_s: float = DEADLINE_S) -> None:
    """Raise ModelError where the tokenizer of a model folder does not tokenize long runs of characters in `deadline_s`.

    Other faults of the file are left to `CausalTokenizer.open`.
    """
    import orjson  # here, because the child process does not need it

    file = folder / "tokenizer.json"
    try:
        content = file.read_bytes()
        tokenizer = orjson.loads(content) if _REGEX in content else {}
        parts = {name: tokenizer.get(name) for name in ("normalizer", "pre_tokenizer")}
    except (OSError, ValueError, AttributeError):
        return
    if not any(parts.values()):
        return
    # Without the vocabulary, which expressions do not need and which takes longest to load.
    alone = {"version": "1.0", **parts, "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}
    try:
        _try(orjson.dumps(alone), deadline_s)
    except _BacktracksError as why:
        raise ModelError(
            f"{file} holds a regular expression that {why}, because it backtracks too much: take the tokenizer.json "
            "that the model's author published"
        ) from None


class _BacktracksError(Exception):
    """What an expression does that is refused."""


@lru_cache(maxsize=64)  # of those that pass: a deadline may be missed because the machine is busy
def _try(tokenizer: bytes, deadline_s: float) -> None:
    # -P: a folder `worker` in the user's current directory must not be imported.
    command = [sys.executable, "-P", "-m", "worker.text.tokenizer_trial"]
    try:
        tried = subprocess.run(command, input=tokenizer, capture_output=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        why = f"takes more than {deadline_s:.0f} s for a line of {_LENGTH:,} characters"
        raise _BacktracksError(why) from None
    if tried.returncode == _REFUSED:
        raise _BacktracksError(f"aborts on a line of {_LENGTH:,} characters")


def main() -> int:
    """Try the tokenizer on standard input; return the exit code."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(sys.stdin.buffer.read())
    for run in _RUNS:
        for end in _ENDS:
            try:
                tokenizer.encode((run * _LENGTH)[:_LENGTH] + end)
            except Exception:  # a fault that has nothing to do with time
                return 0
            except BaseException:  # a panic in Rust: the regular expression library aborts after ten million steps
                return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())

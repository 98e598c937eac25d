"""Whether a tokenizer.json tokenizes text in bounded time: tried in a separate process, which can be killed.

A tokenizer.json may hold regular expressions, and one that backtracks takes minutes for a line of a few thousand
letters; nothing can interrupt it, not even Ctrl-C. So a tokenizer is tried before a model is added, on texts that are
slow for such expressions. (One that is slow only for other texts ends the worker process that hangs on them: `hang_s`.)
"""

import subprocess
import sys
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
    # -P: a folder `worker` in the user's current directory must not be imported.
    command = [sys.executable, "-P", "-m", "worker.text.tokenizer_trial"]
    try:
        tried = subprocess.run(command, input=orjson.dumps(alone), capture_output=True, timeout=deadline_s, check=False)
        why = f"aborts on a line of {_LENGTH:,} characters" if tried.returncode == _REFUSED else None
    except subprocess.TimeoutExpired:
        why = f"takes more than {deadline_s:.0f} s for a line of {_LENGTH:,} characters"
    if why is not None:
        raise ModelError(
            f"{file} holds a regular expression that {why}, because it backtracks too much: take the tokenizer.json "
            "that the model's author published"
        )


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

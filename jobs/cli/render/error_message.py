"""How an error is printed: as a sentence for people, or with --json as an object for programs.

    {"error": {"code": "not_found", "message": "there is no job 7; kvjobs ls ...", "hint": "kvjobs ls ..."}}

It is the last line of standard error, as with gh, docker, kubectl and aws: standard output holds data or nothing, so a
program never has to tell an error from a job.
"""

import errno
import json

import click

from jobs.cli.render.messages import MessageFormat, message_format
from jobs.cli.streams import STANDARD_OUTPUT
from jobs.errors import KvjobsError, advice_in
from jobs.text.formatting import visible

INTERRUPTED = 130
USAGE = 2

# What to do about an error of a kind, where its message does not say.
HINTS = {
    "usage": "{command} --help",
    "refused": "{command} --help",
    "corpus": "correct the corpus, or see what would be read of it: kvjobs submit CORPUS --dry-run",
    "model": "kvjobs models ls",
    "not_allowed": "ask for a token with another role: kvjobs tokens add",
    "key_taken": "choose another key",
    "limit_reached": "wait until an open job has ended",
    "not_found": "kvjobs ls --all",
    "unavailable": "run it again later",
    "operational": "kvjobs doctor",
    "stage_died": "run it again; where it happens again, split the model into more stages, or raise --memory",
    "interrupted": "run it again: what was done is kept",
    "bug": "run it again as `kvjobs --debug ...` and report what it prints",
}


def report_error(error: BaseException, sentence: str, command: str) -> int:
    """Print to standard error why a command failed; return its exit code. `sentence` explains `error`."""
    code, exit_code = _code(error), _exit_code(error)
    if message_format() is MessageFormat.JSON:
        sentence = error.format_message() if isinstance(error, click.ClickException) else sentence
        message = "\n".join(map(visible, sentence.split("\n"))) or code
        body = {"code": code, "message": message, "hint": _hint(code, message, command)}
        click.echo(json.dumps({"error": body}, ensure_ascii=False), err=True)
    elif message_format() is MessageFormat.LOG:
        from jobs.text.log_lines import error_line

        click.echo(error_line(sentence or code), err=True)
    elif isinstance(error, click.ClickException):
        error.show()
    elif isinstance(error, KeyboardInterrupt | click.Abort):
        _print(sentence)  # not an error: the user interrupted
    else:
        _print(f"Error: {sentence}")
    return exit_code


def explain(error: Exception) -> str:
    """One sentence that says what is wrong and what to do."""
    if isinstance(error, KvjobsError):
        return str(error) or (type(error).__doc__ or "").strip()
    if isinstance(error, ModuleNotFoundError) and error.name:
        root = error.name.partition(".")[0]
        if root in ("jobs", "worker"):
            return f"this installation of kvjobs lacks {error.name}; reinstall kvjobs, then run: kvjobs doctor"
        from jobs.system.requirements import install_command

        return f"the Python package {root} is not installed; run: {install_command(root)}"
    if isinstance(error, ImportError):
        return f"a Python package cannot be loaded ({error}); run: kvjobs doctor"
    if str(error) == "can't start new thread":
        return "this process may not start as many threads as it needs; raise the limit (ulimit -u, TasksMax=)"
    if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        return f"cannot write to standard output ({reason}); redirect it to a file or a program"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return (
        f"this is a bug in kvjobs ({type(error).__name__}: {error}); "
        "run it again as `kvjobs --debug ...` and report what it prints"
    )


def _code(error: BaseException) -> str:
    """The stable code of an error, for programs."""
    if isinstance(error, KvjobsError):
        return error.code
    if isinstance(error, click.ClickException):
        return "usage"
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted"
    return "operational" if isinstance(error, OSError | ImportError) else "bug"


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KvjobsError):
        return error.exit_code
    if isinstance(error, click.ClickException):
        return USAGE
    return INTERRUPTED if isinstance(error, KeyboardInterrupt | click.Abort) else 1


def _hint(code: str, message: str, command: str) -> str:
    """What to do; a message that does not say gets the hint of its code."""
    return advice_in(message) or HINTS[code].format(command=command)


def _print(sentence: str) -> None:
    for line in sentence.split("\n") if sentence else ():
        click.echo(visible(line), err=True)

"""
Errors between this machine and the hub, as messages for the user.

Knows: the exceptions of huggingface_hub and of its HTTP client. Does not know: what was being fetched.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.errors import KvjobsError, NotFoundError, SpecError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@contextmanager
def explained(model_id: str, revision: str | None, endpoint: str, cache: Path) -> Iterator[None]:
    """Turn the exceptions of huggingface_hub into KvjobsErrors."""
    from huggingface_hub import errors

    try:
        yield
    except KvjobsError:
        raise
    except errors.HFValidationError:
        raise NotFoundError(f"{model_id!r} cannot be the id of a model on the hub; an id is OWNER/NAME") from None
    except errors.GatedRepoError as error:
        raise SpecError(
            f"{model_id} is gated: accept its terms at {endpoint}/{model_id}, and set HF_TOKEN to a token of that "
            "account"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise NotFoundError(f"{model_id} on {endpoint} has no revision {revision!r}") from error
    except errors.RepositoryNotFoundError as error:
        raise NotFoundError(
            f"{endpoint} shows no model {model_id}: check the spelling; if it is private, set HF_TOKEN to a token "
            "that may read it"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise KvjobsError(_unreachable(endpoint, error)) from error
    except network_errors() as error:
        raise _explain(error, model_id, endpoint, cache) from error


def network_errors() -> tuple[type[Exception], ...]:
    """The base classes of the errors of a download: of huggingface_hub's HTTP client, and OSError.

    The client is requests below 1.0, httpx in 1, httpx2 in 2. The disk and an incomplete download raise OSError.
    """
    from huggingface_hub import errors

    foreign = [
        kind
        for kind in errors.HfHubHTTPError.__mro__
        if issubclass(kind, Exception) and kind.__module__.partition(".")[0] not in ("builtins", "huggingface_hub")
    ]
    return (*foreign, OSError)


def status_of(error: BaseException) -> int | None:
    """The HTTP status of the hub's answer; None where there was none."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def reason_of(error: BaseException) -> str:
    """The message of the operating system at the root of a chain of exceptions, else the name of the exception."""
    reason = type(error).__name__
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, OSError) and below.strerror:
            reason = below.strerror
        elif isinstance(below, TimeoutError) or "timeout" in type(below).__name__.lower():
            reason = "timed out"
        below = below.__cause__ or below.__context__
    return reason


def _explain(error: Exception, model_id: str, endpoint: str, cache: Path) -> KvjobsError:
    status = status_of(error)
    if status in (401, 403):
        return SpecError(
            f"{endpoint} refuses access to {model_id} ({status}): set HF_TOKEN to a token that may read it, or unset "
            "one that has expired"
        )
    if status is not None:
        return KvjobsError(f"{endpoint} answered {status} for {model_id}: try again later")
    if isinstance(error, OSError) and error.errno in _FULL:
        return KvjobsError(f"the disk of {cache} is full: make room, or choose another folder with HF_HOME")
    if isinstance(error, OSError) and error.errno in _NOT_WRITABLE:
        return KvjobsError(f"{cache} cannot be written ({error.strerror}): choose another folder with HF_HOME")
    return KvjobsError(_unreachable(endpoint, error))


def _unreachable(endpoint: str, error: Exception) -> str:
    return (
        f"{endpoint} cannot be reached, or stopped answering ({reason_of(error)}): check the network, then run the "
        "same command again; what has been downloaded is kept"
    )

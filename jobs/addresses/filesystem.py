"""The library that reads addresses of a scheme, by fsspec's interface; and its errors, in sentences.

Each library finds credentials by its own rules: environment variables, its configuration, the machine's role. None
passes through kvjobs, and no text of an error is shown whole: some libraries quote the request.

Knows: fsspec and its libraries. Does not know: corpora, results.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from jobs.addresses.address import BUCKETS, HUB, Address
from jobs.errors import CorpusError, KvjobsError, SpecError
from jobs.system.requirements import install_command, is_installed

T = TypeVar("T")

PAUSES_S = (0.5, 1.0, 2.0, 4.0)  # between attempts
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; of a public bucket FSSPEC_S3_ANON=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or run: gcloud auth application-default login",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_CONNECTION_STRING",
    "hf": "HF_TOKEN, or run: hf auth login",
    "https": "a line of the host in ~/.netrc, or the user in the address",
}
# Of botocore, azure, google, adlfs: classes that are not imported to be caught.
_NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}
_REFUSED = {"ClientAuthenticationError", "GatedRepoError", "TokenRetrievalError", "UnauthorizedSSOTokenError"}
_MISSING = {"RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError", "ResourceNotFoundError"}
# What tells one content of an object from the next.
_VERSIONS = ("ETag", "etag", "generation", "blob_id", "md5Hash", "content_md5")

CHANGED = "it changed while it was read; submit it again once it no longer changes"


def open_filesystem(address: Address) -> Any:
    """A new fsspec file system, which has cached no listing. Raises SpecError where its package is missing."""
    package = BUCKETS.get(address.scheme)
    if package is not None and not is_installed(package):
        raise SpecError(
            f"{address.scheme}:// is read and written with the package {package}, which is not installed: "
            f"{install_command(package)}"
        )
    for name in ("azure", "botocore", "aiobotocore", "google", "httpx", "httpx2", "s3fs"):
        logging.getLogger(name).setLevel(logging.WARNING)  # they would log URLs, and botocore what it signs
    for name in ("gcsfs", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they log each attempt, with a traceback
    # Else gcsfs first asks over gRPC which kind of bucket it is: a minute where that does not answer.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    if address.scheme == HUB:
        from huggingface_hub import HfFileSystem

        return HfFileSystem(skip_instance_cache=True)
    import fsspec

    with naming_address(address):
        return fsspec.filesystem(address.scheme, skip_instance_cache=True)


def version_of(info: Mapping[str, Any]) -> str:
    """What changes when an object does: its size, and its ETag or what its store has instead, or else its time."""
    found = next((str(info[name]) for name in _VERSIONS if info.get(name)), None)
    return f"{info['size']} {found or info.get('last_modified') or info.get('LastModified') or info.get('mtime')}"


def is_final(error: BaseException) -> bool:
    """Whether trying again is of no use."""
    name = type(error).__name__
    final = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError, KvjobsError)
    return isinstance(error, final) or name in _NO_CREDENTIALS | _REFUSED | _MISSING | {"FileExpired"}


def retried(action: Callable[[], T]) -> T:
    """What `action` returns, which may fail a few times. Raises its last error."""
    for pause_s in PAUSES_S:
        try:
            return action()
        except Exception as error:
            if is_final(error):
                raise
            time.sleep(pause_s)
    return action()


@contextmanager
def naming_address(address: Address, kind: type[KvjobsError] = CorpusError) -> Iterator[None]:
    """Raise errors of a library as errors of this kind that begin with the address."""
    try:
        yield
    except KvjobsError:
        raise
    except Exception as error:
        raise kind(f"{address}: {reason(error, address)}") from None


def reason(error: BaseException, address: Address) -> str:
    """What went wrong and what to do, in words that hold nothing of the request."""
    name = type(error).__name__
    how = CREDENTIALS.get(address.scheme, CREDENTIALS["https"])
    if name == "FileExpired":
        return CHANGED
    if isinstance(error, FileNotFoundError) or name in _MISSING:
        if "bucket does not exist" in str(error):
            return "there is no such bucket; check the address"
        return "there is no such file or folder; check the address" + _or_closed(address)
    if name in _NO_CREDENTIALS or "Must provide either a connection_string" in str(error):
        return f"no credentials were found; set {how}"
    if isinstance(error, PermissionError) or name in _REFUSED:
        return f"access is denied; ask for the right to it, or use other credentials: {how}"
    if isinstance(error, ImportError):
        return f"its library cannot be loaded ({error}); install it again"
    status = getattr(error, "status", None) or getattr(error, "status_code", None) or getattr(error, "code", None)
    said = f"{name} {status}" if isinstance(status, int) else getattr(error, "strerror", None) or name
    return f"the server cannot be reached or does not answer ({said}); check the network, and try again"


def _or_closed(address: Address) -> str:
    return f" (of a private dataset, set {CREDENTIALS[HUB]})" if address.scheme == HUB else ""

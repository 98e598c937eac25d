"""Where a corpus or a file of results lies on another machine.

    s3://bucket/corpus/part-*.jsonl.zst        also gs:// and az://: an object, a folder, a pattern
    hf://datasets/user/name@revision/data/     a dataset on the Hugging Face hub
    https://host/corpus.jsonl.gz?signature     a file on the web; http:// on this machine alone

What is shown and stored of an address has neither a user nor a query in it: a presigned URL is a key to its file.

Knows: which addresses there are. Does not know: how one is read.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from jobs.errors import SpecError, nearest

HIDDEN = "***"  # in the place of a user or a query
BUCKETS = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}  # and the package that reads it
HUB, DATASETS = "hf", "datasets/"
WEB = ("https", "http")
SCHEMES = (*BUCKETS, HUB, *WEB)
OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "wasb": "az", "wasbs": "az"}

# Of fsspec, `zip::s3://...` too, so that no such name is taken for a file of this machine.
_BEGINNING = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(//|:)")
_MAGIC = re.compile(r"[*?\[]")
_QUERY = re.compile(r"\?[^/]*=.*", re.DOTALL)  # not the sign of a pattern
_BEHIND_PATH = re.compile(r"[?#].*", re.DOTALL)  # of a URL


def is_address(text: str) -> bool:
    """Whether a text is written as an address, which need not be one that is read."""
    return _BEGINNING.match(text) is not None


def without_secrets(text: str) -> str:
    """An address without its user and its query; any other text as it is."""
    if not is_address(text):
        return text
    scheme, separator, rest = text.partition("://")
    rest = (_BEHIND_PATH if scheme.lower() in WEB else _QUERY).sub(f"?{HIDDEN}", rest)
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = f"{HIDDEN}@{host.rpartition('@')[2]}"
    bare = f"{scheme}{separator}{host}{slash}{path}"
    return bare if bare.isprintable() else bare.encode("unicode_escape").decode()


def is_hidden(shown: str) -> bool:
    """Whether a stored address lacks what it takes to read it again."""
    return "://" in shown and HIDDEN in shown


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """A checked address. As a text it has no secrets."""

    scheme: str
    rest: str  # behind ://, as it was written

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Raises SpecError for an address that is not read, without repeating what may be a secret in it."""
        found = _BEGINNING.match(text)
        assert found
        scheme = found["scheme"].lower()
        address = cls(scheme, text[found.end() :])
        is_chain = found[2] != "//" or ("::" in text and scheme not in WEB)  # fsspec would open what stands behind ::
        if is_chain or scheme not in SCHEMES:
            near = nearest(scheme, SCHEMES) if (other := OTHER_NAMES.get(scheme)) is None else other
            hint = f" (did you mean {near}://?)" if near and near != scheme else ""
            raise SpecError(
                f"{without_secrets(text)}: no such address is read{hint}; those that are begin with s3://, gs://, "
                "az://, hf://datasets/ or https://"
            )
        address._check()
        return address

    @property
    def url(self) -> str:
        """The whole address, secrets included, for whoever reads it."""
        return f"{self.scheme}://{self.rest}"

    @property
    def is_web(self) -> bool:
        return self.scheme in WEB

    @property
    def is_pattern(self) -> bool:
        """Whether it names objects by a pattern. (In a URL, ? begins the query.)"""
        return not self.is_web and _MAGIC.search(self.rest) is not None

    @property
    def path(self) -> str:
        """What stands behind the scheme, for the library that reads it: bucket and key."""
        return self.rest.rstrip("/")

    @property
    def name(self) -> str:
        """The name of the file: what stands behind the last slash."""
        path = unquote(urlsplit(self.url).path) if self.is_web else self.rest
        return PurePosixPath(path).name

    def __str__(self) -> str:
        return without_secrets(self.url)

    __repr__ = __str__  # a traceback shows it

    def within(self, key: str) -> "Address":
        """The address of another object, by its bucket and key."""
        return Address(self.scheme, key)

    def _check(self) -> None:
        host = self.rest.partition("/")[0]
        if not self.rest.isprintable() or not host or " " in host:
            raise SpecError(f"{self}: this is not an address; write it as in s3://bucket/corpus.jsonl")
        if self.is_web:
            self._check_host()
            return
        if "@" in host or ":" in host:
            raise SpecError(
                f"{self}: an address has no user and no key in it; "
                f"{BUCKETS.get(self.scheme, 'huggingface_hub')} finds them in its environment variables and files"
            )
        if _QUERY.search(self.rest):
            raise SpecError(f"{self}: an address of {self.scheme}:// has no query; leave it out")
        if self.scheme == HUB and not re.match(rf"{DATASETS}[^/]+/[^/]+", self.rest):
            raise SpecError(f"{self}: of the hub datasets are read: hf://datasets/USER/NAME/FILE")

    def _check_host(self) -> None:
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host = ""
        if not host:  # it is not shown: what stands where may be a password
            raise SpecError(f"{self.scheme}://{HIDDEN} is not an address; write it as in https://host/corpus.jsonl")
        if self.scheme == "http" and not is_loopback(host):
            raise SpecError(f"{self}: http:// is read from this machine alone; write https://")
        if not self.name or parts.path.endswith("/"):
            raise SpecError(f"{self}: this is not a file; a folder cannot be listed over {self.scheme}, name its files")


Location = Path | Address


def located(text: str) -> Location:
    """The path or the address that a text names. Raises SpecError for an address that is not read."""
    return Address.parse(text) if is_address(text) else Path(text)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name alone, asking nobody."""
    import ipaddress  # not for each command

    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Which packages are installed, and the command that installs a missing one. It names the package, not an extra of
kvjobs, so it is the same wherever kvjobs was installed from (a checkout, a wheel, an index)."""

import importlib.metadata
import importlib.util
import re

DISTRIBUTION = "kvjobs"
_STAND_INS = {"onnxruntime": ("onnxruntime-gpu",)}  # distributions that bring the same package
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<rest>[^;]*)")


def is_installed(package: str) -> bool:
    """Whether a package can be imported. It is not loaded."""
    return importlib.util.find_spec(package) is not None


def installed_version(distribution: str) -> str | None:
    """The version of a distribution, or of one that brings the same package: onnxruntime-gpu. None: not installed."""
    for name in (distribution, *_STAND_INS.get(distribution, ())):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def install_command(package: str) -> str:
    """The command that installs `package`, in the version that kvjobs requires if it requires one: for psycopg
    `pip install 'psycopg[binary]>=3.2'`."""
    try:
        wanted = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # kvjobs runs from a folder without being installed
        wanted = []
    for requirement in wanted:
        match = _REQUIREMENT.match(requirement)
        if match and _normal(match["name"]) == _normal(package):
            return f"pip install '{(match['name'] + match['rest']).strip()}'"
    return f"pip install {package}"


def needs_pyarrow() -> str:
    """A sentence: the package is missing, and this command installs it."""
    return f"parquet is read and written with the package pyarrow, which is not installed: {install_command('pyarrow')}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

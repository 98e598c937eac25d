"""Which format a file has, by the end of its name. A format is loaded where a file of it is read, because the libraries
of some are not installed with kvjobs itself (the extra `files`).

Knows: names. Does not know: what is in a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.files.translatable import FileFormat
from jobs.system.requirements import install_command, is_installed


def _properties() -> FileFormat:
    from jobs.files.properties import FORMAT

    return FORMAT


def _html() -> FileFormat:
    from jobs.files.markup.html_pages import FORMAT

    return FORMAT


def _markdown() -> FileFormat:
    from jobs.files.markup.markdown_text import FORMAT

    return FORMAT


def _docx() -> FileFormat:
    from jobs.files.markup.docx import FORMAT

    return FORMAT


def _odt() -> FileFormat:
    from jobs.files.markup.odt import FORMAT

    return FORMAT


def _tbx() -> FileFormat:
    from jobs.files.markup.entries import TBX

    return TBX


def _tmx() -> FileFormat:
    from jobs.files.markup.entries import TMX

    return TMX


def _xliff() -> FileFormat:
    from jobs.files.markup.xliff import FORMAT

    return FORMAT


def _po() -> FileFormat:
    from jobs.files.gettext.portable_objects import FORMAT

    return FORMAT


def _srt() -> FileFormat:
    from jobs.files.subtitles.formats import SRT

    return SRT


def _vtt() -> FileFormat:
    from jobs.files.subtitles.formats import VTT

    return VTT


def _ass() -> FileFormat:
    from jobs.files.subtitles.formats import ASS

    return ASS


def _json() -> FileFormat:
    from jobs.files.resources.json_texts import JSON

    return JSON


def _arb() -> FileFormat:
    from jobs.files.resources.json_texts import ARB

    return ARB


def _android() -> FileFormat:
    from jobs.files.resources.android_strings import FORMAT

    return FORMAT


def _resx() -> FileFormat:
    from jobs.files.resources.resx import FORMAT

    return FORMAT


def _strings() -> FileFormat:
    from jobs.files.resources.apple_strings import FORMAT

    return FORMAT


def _stringsdict() -> FileFormat:
    from jobs.files.resources.stringsdict import FORMAT

    return FORMAT


def _xcstrings() -> FileFormat:
    from jobs.files.resources.string_catalog import FORMAT

    return FORMAT


def _yaml() -> FileFormat:
    from jobs.files.resources.yaml_texts import FORMAT

    return FORMAT


@dataclass(frozen=True, slots=True)
class LazyFormat:
    """A format that is not loaded yet."""

    load: Callable[[], FileFormat]
    packages: tuple[str, ...] = ()  # that it imports and that kvjobs does not require, under the names of an import


FORMATS: Mapping[str, LazyFormat] = {
    ".arb": LazyFormat(_arb),
    ".ass": LazyFormat(_ass),
    ".docx": LazyFormat(_docx),
    ".htm": LazyFormat(_html),
    ".html": LazyFormat(_html),
    ".json": LazyFormat(_json),
    ".markdown": LazyFormat(_markdown),
    ".md": LazyFormat(_markdown),
    ".odt": LazyFormat(_odt),
    ".po": LazyFormat(_po),
    ".pot": LazyFormat(_po),
    ".properties": LazyFormat(_properties),
    ".resw": LazyFormat(_resx),
    ".resx": LazyFormat(_resx),
    ".srt": LazyFormat(_srt),
    ".ssa": LazyFormat(_ass),
    ".strings": LazyFormat(_strings),
    ".stringsdict": LazyFormat(_stringsdict),
    ".tbx": LazyFormat(_tbx),
    ".tmx": LazyFormat(_tmx),
    ".vtt": LazyFormat(_vtt),
    ".xcstrings": LazyFormat(_xcstrings),
    ".xhtml": LazyFormat(_html),
    ".xlf": LazyFormat(_xliff),
    ".xliff": LazyFormat(_xliff),
    ".xml": LazyFormat(_android),
    ".yaml": LazyFormat(_yaml),
    ".yml": LazyFormat(_yaml),
}
_LONGEST_FIRST = sorted(FORMATS, key=len, reverse=True)


def suffix_of(name: str) -> str | None:
    """The end of a file's name that says its format, in lower case: ".po"; None for a file that is not translated."""
    lower = name.lower()
    return next((suffix for suffix in _LONGEST_FIRST if lower.endswith(suffix)), None)


def format_of(name: str) -> FileFormat:
    """The format of a file that has a `suffix_of`. Raises SpecError, with the command that installs it, where a package
    is missing."""
    suffix = suffix_of(name)
    assert suffix is not None
    found = FORMATS[suffix]
    for package in found.packages:
        if not is_installed(package):
            raise SpecError(
                f"{suffix} is read with the package {package}, which is not installed: {install_command(package)}"
            )
    return found.load()

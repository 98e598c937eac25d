"""Which objects at an address are translated as files: those that a folder here would have, under names it can hold."""

import pytest

from jobs.addresses.address import Address
from jobs.addresses.listing import RemoteFile
from jobs.corpus.translatable.file_list import choose_translatable
from jobs.errors import CorpusError

FOLDER = Address("s3", "bucket/manual/")


def chosen(*names: str) -> list[str] | None:
    listed = [RemoteFile(FOLDER.within(f"bucket/manual/{name}"), name) for name in names]
    found = choose_translatable(FOLDER, listed, is_asked=False, documents=(".jsonl",))
    return None if found is None else [file.name for file in found]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("b-10.po", "b-2.po", "a/logo.png"), ["a/logo.png", "b-2.po", "b-10.po"]),
        (("a.po", ".git/b.po", "ui/.c.po"), ["a.po"]),
        (("part.jsonl", "README.md", "_SUCCESS"), None),
        (("logo.png",), None),
    ],
)
def test_a_listing_is_read_as_a_folder_here_is(names: tuple[str, ...], found: list[str] | None) -> None:
    assert chosen(*names) == found


@pytest.mark.parametrize("name", ["../b.po", "a/../../b.po", "/etc/b.po", "a//b.po", "./b.po", "a\nb.po"])
def test_a_key_that_would_lie_outside_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(CorpusError, match=r"b\.po"):
        chosen("a.po", name)

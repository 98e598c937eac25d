"""Which addresses are read, and what is shown of them."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.addresses import filesystem
from jobs.addresses.address import Address, is_address, is_hidden, located, without_secrets
from jobs.addresses.listing import find_remote
from jobs.errors import SpecError


@pytest.mark.parametrize(
    "text",
    [
        *(
            "s3://bucket/a.jsonl",
            "s3://bucket/part-?.jsonl.zst",
            "gs://bucket/folder/",
            "az://box/**/*.csv",
            "s3://bucket/",
        ),
        *("hf://datasets/user/name@main/data/a.parquet", "hf://datasets/user/name"),
        *("https://host/a.jsonl", "http://127.0.0.1:80/a.jsonl", "http://localhost/a.jsonl", "http://[::1]:8/a.jsonl"),
    ],
)
def test_these_addresses_are_read_and_shown_as_they_are(text: str) -> None:
    assert str(located(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("file:///etc/passwd", "local:///etc/passwd", "memory://a", "ftp://host/a", "zip://a.csv::s3://bucket/a.zip"),
        *("simplecache::s3://bucket/a", "s3://bucket/a::b", "github://org:repo@/a", "dask://x/y", "FILE:///etc/passwd"),
        *("http://host/a.jsonl", "http://10.0.0.1/a.jsonl", "http://127.0.0.1.evil.org/a.jsonl", "https:///a.jsonl"),
        *(
            "s3://",
            "s3:///a",
            "s3://buck et/a",
            "s3://bucket/a\nb",
            "hf://spaces/a/b",
            "hf://datasets/a",
            "https://host/",
        ),
        *(
            "https://host/folder/",
            "https://host:port/a.jsonl",
            "az://box/a.csv?sv=1&sig=SECRET",
            "s3://key:SECRET@bucket/a",
        ),
        *("https://user:SEC/RET@host/a.jsonl", "ftp://user:SECRET@host/a", "zip::https://host/a?sig=SECRET"),
    ],
)
def test_nothing_else_is_read_and_no_secret_is_repeated(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        located(text)
    assert "SECRET" not in str(refused.value)
    assert "SEC/" not in str(refused.value)


@pytest.mark.parametrize("text", ["corpus.jsonl", "/a/b.csv", "-", "a:b.jsonl", "s3:/bucket/a", "part-*.gz", "://a"])
def test_a_path_is_no_address(text: str) -> None:
    assert not is_address(text)
    assert located(text) == Path(text)
    assert without_secrets(text) == text


@pytest.mark.parametrize(("other", "near"), [("s3a", "s3"), ("gcs", "gs"), ("abfs", "az"), ("htps", "https")])
def test_a_name_that_others_use_gets_the_one_that_is_meant(other: str, near: str) -> None:
    with pytest.raises(SpecError, match=rf"did you mean {near}://"):
        located(f"{other}://bucket/a")


SECRETS = st.text(string.ascii_letters + string.digits + "%=+&.~", min_size=6).map(lambda text: f"SeCrEt{text}")


@given(user=SECRETS, query=SECRETS)
def test_neither_user_nor_query_of_a_url_is_shown(user: str, query: str) -> None:
    for text in (
        f"https://{user}:{user}@host/a.jsonl?{query}",
        f"https://{user}@host/a.jsonl?X-Amz-Signature={query}#part",
        f"https://host/a.jsonl?{query}?{query}/{query}@x",
    ):
        for shown in (str(Address.parse(text)), repr(Address.parse(text)), without_secrets(text)):
            assert "SeCrEt" not in shown
            assert is_hidden(shown)
            assert Address.parse(shown).name == "a.jsonl"


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "is_installed", lambda package: False)
    for scheme, package in (("s3", "s3fs"), ("gs", "gcsfs"), ("az", "adlfs")):
        with pytest.raises(SpecError, match=f"{package}.*pip install.*{package}"):
            find_remote(Address.parse(f"{scheme}://bucket/a.jsonl"))

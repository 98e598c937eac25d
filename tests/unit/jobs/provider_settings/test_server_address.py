"""Addresses and keys, as the servers' own clients read them."""

from collections.abc import Callable

import pytest

from jobs.errors import SpecError
from jobs.provider_settings.server_address import api_key, ollama_url, openai_url


# The first group is from the documentation of `_parse_host` in ollama 0.6.3.
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":56789", "http://127.0.0.1:56789"),
        ("1.2.3.4:56789", "http://1.2.3.4:56789"),
        ("http://1.2.3.4", "http://1.2.3.4:80"),
        ("https://1.2.3.4", "https://1.2.3.4:443"),
        ("example.com", "http://example.com:11434"),
        ("example.com:56789/", "http://example.com:56789"),
        ("example.com/path", "http://example.com:11434/path"),
        ("https://example.com:56789/path/", "https://example.com:56789/path"),
        ("[0001:002:003:0004::1]", "http://[0001:002:003:0004::1]:11434"),
        ("http://[0001:002:003:0004::1]", "http://[0001:002:003:0004::1]:80"),
        ("[0001:002:003:0004::1]:56789/path", "http://[0001:002:003:0004::1]:56789/path"),
        # What a server listens on is not where a client connects to; a proxy may ask for a password.
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("http://[::]:11434", "http://[::1]:11434"),
        ("https://user:pass@example.com", "https://user:pass@example.com:443"),
    ],
)
def test_an_ollama_host_is_read_as_by_its_own_client(text: str, url: str) -> None:
    assert ollama_url(text) == url
    assert ollama_url(url) == url


@pytest.mark.parametrize("text", ["host:s3cret", "ftp://s3cret", "http://[s3cret", "s3 cret", "s3cret\n:1", "h:99999"])
def test_an_ollama_host_that_is_none_is_refused_without_showing_it(text: str) -> None:
    refused(ollama_url, text)


def test_a_base_url_ends_without_a_slash() -> None:
    assert openai_url(" http://127.0.0.1:8000/v1/ ") == "http://127.0.0.1:8000/v1"
    assert openai_url("https://user:pass@host") == "https://user:pass@host"


@pytest.mark.parametrize(
    "text",
    ["s3cret/v1", "host:8000/s3cret", "file:///s3cret", "http://", "http://h:s3cret", "http://h/?a=s3cret"],
)
def test_a_base_url_that_is_none_is_refused_without_showing_it(text: str) -> None:
    refused(openai_url, text)


def test_white_space_around_a_key_is_left_out() -> None:
    assert api_key("sk-abc \n") == "sk-abc"


@pytest.mark.parametrize("text", ["s3cret\r\nHost: evil", "s3cret \x00", "s3crét", "Bearer s3cret"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(text: str) -> None:
    refused(api_key, text)


def refused(read: Callable[[str], str], text: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read(text)
    assert "s3cr" not in str(refusal.value)
    assert refusal.value.__cause__ is None

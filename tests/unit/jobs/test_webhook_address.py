"""Where a webhook may go, and what signs it."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.webhook_address import is_public, read_webhook_secret, read_webhook_url, shown_address


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/x?y=1",
        "https://a.example:8443",
        "http://localhost:9000/x",
        "http://127.0.0.1",
        "http://[::1]:1/",
    ],
)
def test_https_and_http_to_this_machine_are_addresses(url: str) -> None:
    assert read_webhook_url(f" {url}\n") == url


@pytest.mark.parametrize(
    "url",
    [
        *("", "a.example", "ftp://a.example", "file:///etc/passwd", "https://", "https:///x", "https://a.example/#x"),
        *("http://a.example/", "http://127.0.0.1.a.example/", "http://localhost.a.example", "http://0.0.0.0/"),
        *("http://169.254.169.254/latest", "http://2130706433/", "http://0x7f.1/", "http://[::ffff:10.0.0.1]/"),
        *("https://user:password@a.example", "https://a.example\\@b.example", "https://a.example:x", "https://[::1"),
        *("https://a.example/\r\nx: y", "https://a.example/a b", f"https://a.example/{'x' * 2000}"),
    ],
)
def test_anything_else_is_refused_and_no_password_repeated(url: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_webhook_url(url)

    assert "password@" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *(
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1%eth0",
            "fc00::1",
            "ff02::1",
        ),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
        ),
    ],
)
def test_what_only_some_can_reach_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_what_everybody_can_reach_is_public(address: str) -> None:
    assert is_public(address)


@given(st.binary(max_size=80), st.booleans())
def test_a_secret_is_base64_of_24_to_64_bytes(key: bytes, has_prefix: bool) -> None:
    text = ("whsec_" if has_prefix else "") + base64.b64encode(key).decode()

    if 24 <= len(key) <= 64:
        assert read_webhook_secret(text) == text
    else:
        with pytest.raises(SpecError):
            read_webhook_secret(text)


def test_a_wrong_secret_is_not_repeated() -> None:
    with pytest.raises(SpecError) as refused:
        read_webhook_secret("whsec_hush-hush")

    assert "hush" not in str(refused.value)


def test_the_query_of_an_address_is_not_shown() -> None:
    assert "k3y" not in shown_address("https://a.example/x?key=k3y")
    assert shown_address("https://a.example/x") == "https://a.example/x"

"""The addresses that webhooks may go to, and the secret that signs them.

A webhook makes this machine send a request to an address that somebody else may have named. So it must not reach what
only this machine can reach: another program of it, a router, the metadata of a cloud (SSRF).
"""

import base64
import binascii
import ipaddress
import re
from urllib.parse import urlsplit

from jobs.errors import SpecError

LONGEST = 2000  # characters
SECRET_PREFIX = "whsec_"
LEAST_SECRET, MOST_SECRET = 24, 64  # bytes; by Standard Webhooks
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def read_webhook_url(text: str) -> str:
    """The address, as it was written. Raises SpecError unless it is https, or http to this machine."""
    wrong = SpecError("the address of a webhook is not one; write https://HOST/PATH")
    text = text.strip()
    if not re.fullmatch(r"[\x21-\x7e]+", text) or len(text) > LONGEST:
        raise wrong
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # raise ValueError for an open bracket, and for a port that is no number
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("https", "http") or not host or parts.fragment or "\\" in text:
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise SpecError("the address of a webhook holds a user or a password; leave them out: what is sent is signed")
    if parts.scheme == "http" and not is_this_machine(host):
        raise SpecError("a webhook over http would be readable on its way; write https://, or http:// to this machine")
    return text


def is_this_machine(host: str) -> bool:
    """Whether a name or address means this machine, whatever a name server says."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an IP address can be reached from everywhere. An IPv6 address that stands for one of IPv4 is judged as
    that."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if inner := found.ipv4_mapped or found.sixtofour:
            return is_public(str(inner))
        if found in NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast


def read_webhook_secret(text: str) -> str:
    """The secret. Raises SpecError for one that is no base64 of 24 to 64 bytes; the error does not repeat it."""
    text = text.strip()
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not LEAST_SECRET <= len(key) <= MOST_SECRET:
        raise SpecError(f"it is no secret of a webhook; make one: echo {SECRET_PREFIX}$(openssl rand -base64 32)")
    return text


def shown_address(url: str) -> str:
    """The address without its query, which may hold a key."""
    shown, has_query, _ = url.partition("?")
    return f"{shown}?…" if has_query else shown

"""Who is at the other end of a connection."""

import ipaddress


def peer_of(client: tuple[str, int] | None) -> str:
    """The address by which visitors are told apart. Of IPv6 the network: a single host has 2^64 addresses in it."""
    if client is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))

"""Which IP addresses belong to the public internet. Pure.

`web_fetch` runs unasked, so it must not reach what only this machine or its network can reach. The
table is that of the IANA special-purpose registries (RFC 6890 and successors), written out, since what
`ipaddress.is_global` says differs between versions of Python; and what carries an IPv4 address inside
is judged by that address.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_V4: Final = [
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "this machine"),
        ("127.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("172.16.0.0/12", "a private network"),
        ("192.168.0.0/16", "a private network"),
        ("100.64.0.0/10", "a provider's inner network"),
        ("169.254.0.0/16", "the local link, where clouds serve credentials"),
        ("168.63.129.16/32", "a cloud's inner service"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("198.18.0.0/15", "reserved for tests of networks"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6: Final = [
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "this machine"),
        ("::1/128", "this machine"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "the local link"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
        ("64:ff9b:1::/48", "a local translation to IPv4"),
        ("100::/64", "reserved"),
        ("2001:db8::/32", "reserved for documentation"),
        ("3fff::/20", "reserved for documentation"),
        ("2001::/23", "reserved, or a tunnel"),
    )
]
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_GLOBAL: Final = IPv6Network("2000::/3")


def judge(address: str) -> str | None:
    """What a non-public address is, as a phrase; None for a public one. Raises ValueError for no address."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv4Address):
        return _judge_v4(parsed)
    for network, reason in _V6:
        if parsed in network:
            return reason
    inner = _inner(parsed)
    if inner is not None:
        found = _judge_v4(inner)
        return f"{found} ({inner} inside an IPv6 address)" if found else None
    return None if parsed in _GLOBAL else "reserved"


def _judge_v4(address: IPv4Address) -> str | None:
    return next((reason for network, reason in _V4 if address in network), None)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a translated or tunnelled one leads to."""
    number = int(address)
    if any(address in network for network in (_MAPPED, _TRANSLATED, _COMPATIBLE, _NAT64)):
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    # ISATAP (RFC 5214): an interface id of 0:5efe or 200:5efe before the IPv4 address.
    if number >> 32 & 0xFDFFFFFF == 0x00005EFE:
        return IPv4Address(number & 0xFFFFFFFF)
    return None

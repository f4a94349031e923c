"""What a response holds, by its header and its first bytes, and in which charset its text is. Pure."""

from __future__ import annotations

import codecs
import re
from email.message import Message
from typing import Final, Literal

Kind = Literal["html", "text", "other"]

_TEXT: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|x-javascript|ecmascript|typescript"
    r"|x-ndjson|jsonl|graphql|sql|x-sh|x-httpd-php|x-www-form-urlencoded|x-tex|rtf)"
)
_NEVER: Final = re.compile(
    r"(?:image|audio|video|font|model)/.*|application/(?:pdf|zip|gzip|x-.*(?:tar|zip|compressed|rar|bzip|xz).*"
    r"|vnd\..*|wasm|java-archive|msword|epub\+zip)"
)
_META: Final = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]+)", re.IGNORECASE)
_HTML: Final = re.compile(
    rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python also knows codecs that are no charsets (punycode, unicode_escape), of which some are slow as well.
_CHARSETS: Final = re.compile(
    r"utf-(?:8|16|32)|ascii|cp\d|iso8859|koi8|mac|gb|big5|euc|shift|iso2022|hz|johab|tis"
)


def media_type(header: str) -> tuple[str, str]:
    """The type in lower case and the charset of a Content-Type header; either may be empty."""
    message = Message()
    message["Content-Type"] = header
    kind = message.get_content_type() if header.strip() else ""
    charset = message.get_param("charset") or ""
    return kind, charset if isinstance(charset, str) else charset[2]


def never_text(kind: str) -> bool:
    """Its body need not be read to know that it is no text."""
    return bool(_NEVER.fullmatch(kind)) and not kind.endswith(("+xml", "+json"))


def kind_of(kind: str, charset: str, body: bytes) -> Kind:
    """What to do with a body."""
    wide = charset.lower().startswith(("utf-16", "utf-32", "ucs")) or any(
        body.startswith(bom) for bom, name in _BOMS if name != "utf-8-sig"
    )
    if b"\0" in body[:65536] and not wide:
        return "other"
    if kind in ("text/html", "application/xhtml+xml") or (
        kind in ("", "text/plain", "application/octet-stream")
        and kind != "text/plain"
        and _HTML.match(body[:4096])
    ):
        return "html"
    if _TEXT.fullmatch(kind) or wide:
        return "text"
    if never_text(kind):
        return "other"
    # Servers that know no better call text a stream of octets. A cut may halve the last character.
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return "other"
    return "text"


def charset_of(charset: str, body: bytes, *, markup: bool) -> str:
    """A codec's name: by the header, else by a byte order mark, else by HTML's own word, else UTF-8."""
    named = _codec(charset)
    for bom, codec in _BOMS:
        if body.startswith(bom) and named in ("", "utf-8", "utf-16", "utf-32"):
            return codec
    if not named and markup:
        found = _META.search(body[:4096])
        # A page that can be read this far is not in UTF-16, whatever it says (HTML standard).
        named = _codec(found[1].decode()) if found else ""
        named = "utf-8" if named.startswith(("utf-16", "utf-32")) else named
    # The web's Latin-1 and ASCII are Windows-1252, its GB 2312 is GB 18030 (WHATWG Encoding).
    return {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}.get(
        named, named or "utf-8"
    )


def _codec(name: str) -> str:
    try:
        known = codecs.lookup(name.strip()).name if name.isascii() and name.strip() else ""
    except (LookupError, ValueError):
        return ""
    return known if _CHARSETS.match(known) else ""

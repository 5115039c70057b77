"""A picture carries what it shows as text, so that a test can compare it with the page around it (PNG, chunk `iTXt`)."""

import struct
import zlib
from pathlib import Path

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"Description"
HEAD = KEYWORD + b"\0" * 5
"""The keyword and its end, not compressed, no language, no translation."""


def describe(picture: Path, text: str) -> None:
    """Write a text into a PNG file, behind its header."""
    chunks = _chunks(picture.read_bytes())
    chunks.insert(1, (b"iTXt", HEAD + text.encode()))
    parts = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks]
    picture.write_bytes(SIGNATURE + b"".join(parts))


def description(picture: Path) -> str:
    """Return the text of a PNG file; empty if it has none."""
    found = (data for kind, data in _chunks(picture.read_bytes()) if kind == b"iTXt" and data.startswith(HEAD))
    return next(found, HEAD)[len(HEAD) :].decode()


def _chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    assert png.startswith(SIGNATURE)
    found, at = [], len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        found.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += length + 12
    return found

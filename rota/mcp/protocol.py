"""Messages of the Model Context Protocol: JSON-RPC 2.0 with one message per line, and the versions of the protocol.

Until version 2025-11-25 a client opens with `initialize`. From 2026-07-28 on, each request states its version in `_meta`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED_VERSION = -32022

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that a client and a server agree on with `initialize`, the oldest first."""
STATELESS_VERSIONS = ("2026-07-28",)
"""Versions that each request states."""
BATCH_VERSION = "2025-03-26"
"""The only version with several messages on a line."""
META = "io.modelcontextprotocol/"
"""Prefix of the protocol's own names in `_meta`."""

MAX_LINE_BYTES = 1_000_000
MAX_BATCH = 100
_MAX_SHOWN_CHARS = 100


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A message that gets an answer."""

    id: str | int
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A message that never gets an answer."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RpcReply:
    """A response from the client. This server sends no requests, so it expects none."""


class ProtocolFault(Exception):
    """A message that cannot be served as a message of the protocol, and the error that its sender gets."""

    def __init__(self, code: int, message: str, *, id: str | int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.id, self.data = code, message, id, data

    def response(self, id: str | int | None = None) -> dict[str, Any]:
        """Return the error as a response to the request with this id, or to the one that the fault names."""
        error = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id if id is None else id, "error": error}


Message = RpcRequest | RpcNotification | RpcReply


def read_json(line: bytes) -> Any:
    """Return the JSON value of a line. Raise ProtocolFault if it is not JSON or is too long."""
    if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
        raise ProtocolFault(INVALID_REQUEST, f"The message is longer than {MAX_LINE_BYTES:,} bytes.")
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise ProtocolFault(PARSE_ERROR, f"The message is not JSON: {shortened(str(problem))}.") from None


def read_message(plain: Any) -> Message:
    """Return the message. Raise ProtocolFault if it is not one."""
    if not isinstance(plain, dict):
        raise ProtocolFault(INVALID_REQUEST, "The message is not a JSON object.")
    id, method, params = plain.get("id"), plain.get("method"), plain.get("params")
    known_id = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    if plain.get("jsonrpc") != "2.0":
        raise ProtocolFault(INVALID_REQUEST, 'The message has no "jsonrpc": "2.0".', id=known_id)
    if "method" not in plain and ("result" in plain or "error" in plain):
        return RpcReply()
    if not isinstance(method, str):
        raise ProtocolFault(INVALID_REQUEST, "The message has no method.", id=known_id)
    if "id" not in plain:
        return RpcNotification(method, params if isinstance(params, dict) else {})
    if known_id is None:
        raise ProtocolFault(INVALID_REQUEST, "The id is not a string or a whole number.")
    if params is not None and not isinstance(params, dict):
        raise ProtocolFault(INVALID_PARAMS, "The params are not a JSON object.", id=known_id)
    return RpcRequest(known_id, method, params or {})


def write_message(plain: Any) -> bytes:
    """Return the line of a message. Only ASCII is written, so a line never contains a separator of lines."""
    return json.dumps(plain, allow_nan=False).encode("ascii") + b"\n"


def agreed_version(params: Mapping[str, Any]) -> str:
    """Return the version for a client that sends `initialize`: the requested one, else the latest."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise ProtocolFault(INVALID_PARAMS, "initialize needs a protocolVersion, such as 2025-11-25.")
    return wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


def stated_version(params: Mapping[str, Any]) -> str | None:
    """Return the version that a request states in `_meta`; None if it states none. Raise ProtocolFault if the version is not
    supported, or if the request lacks what the version requires."""
    meta = params.get("_meta")
    wanted = meta.get(f"{META}protocolVersion") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or wanted is None:
        return None
    if not isinstance(wanted, str):
        raise ProtocolFault(INVALID_PARAMS, f"_meta {META}protocolVersion is not a string.")
    if wanted not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": shortened(wanted)}
        raise ProtocolFault(UNSUPPORTED_VERSION, "Unsupported protocol version.", data=data)
    if not isinstance(meta.get(f"{META}clientCapabilities"), dict):
        raise ProtocolFault(INVALID_PARAMS, f"_meta needs {META}clientCapabilities, which may be empty.")
    return wanted


def shortened(text: str) -> str:
    """Return the beginning of a text that a client sent, in characters that can be printed."""
    ascii_text = text.encode("ascii", "backslashreplace").decode("ascii")
    clean = "".join(sign if sign.isprintable() else "?" for sign in ascii_text)
    return clean if len(clean) <= _MAX_SHOWN_CHARS else clean[:_MAX_SHOWN_CHARS] + "..."


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")

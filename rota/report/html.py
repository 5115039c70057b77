"""Building blocks of pages: escaped text, the assets of `web/`, and a security policy that allows nothing else."""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import Any


def text(value: str) -> str:
    """Escape text for HTML, and replace characters that UTF-8 cannot encode."""
    return escape(value.encode("utf-8", "replace").decode("utf-8"))


def word(value: str, definition: str) -> str:
    """Return text that links to its definition on the page, if it has one."""
    return f'<a class="word" href="#define-{definition}">{text(value)}</a>' if definition else text(value)


def json_block(value: dict[str, Any]) -> str:
    """Return JSON that cannot end the block it stands in. The encoder escapes everything but ASCII."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def security_policy(style: str, script: str = "") -> str:
    """Return a policy that allows these two inline blocks, by their hashes, and nothing else."""
    scripts = f" script-src '{_hash(script)}';" if script else ""
    return f"default-src 'none'; style-src '{_hash(style)}';{scripts} img-src data:; base-uri 'none'; form-action 'none'"


def asset(name: str) -> str:
    return resources.files("rota.report").joinpath("web", name).read_text(encoding="utf-8")


def _hash(block: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(block.encode("utf-8")).digest()).decode("ascii")

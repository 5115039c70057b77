"""What every page is made of: escaped text, assets of `web/`, and a policy that lets a page use nothing but its own blocks."""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from typing import Any


def text(value: str) -> str:
    """Text of others, fit to stand in HTML and to be written as UTF-8."""
    return escape(value.encode("utf-8", "replace").decode("utf-8"))


def word(value: str, definition: str) -> str:
    """Text that leads to its definition on the page, if it has one."""
    return f'<a class="word" href="#define-{definition}">{text(value)}</a>' if definition else text(value)


def json_block(value: dict[str, Any]) -> str:
    """JSON that cannot end the block it stands in; other signs than ASCII are escaped by the encoder."""
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def security_policy(style: str, script: str = "") -> str:
    """Allows these two inline blocks, by their hashes, and nothing else."""
    scripts = f" script-src '{_hash(script)}';" if script else ""
    return f"default-src 'none'; style-src '{_hash(style)}';{scripts} img-src data:; base-uri 'none'; form-action 'none'"


def asset(name: str) -> str:
    return resources.files("rota.report").joinpath("web", name).read_text(encoding="utf-8")


def _hash(block: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(block.encode("utf-8")).digest()).decode("ascii")

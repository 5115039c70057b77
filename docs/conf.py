"""Sphinx configuration; `make docs` builds with warnings as errors."""

import re
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[1] / "rota" / "__init__.py"
_VERSION = re.search(r'^__version__ = "([^"]+)"', _SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
if _VERSION is None:
    raise ValueError(f"{_SOURCE.name} has no line __version__ = ...; the documentation takes its version from there")

project = "Rota"
author = "The Rota authors"
project_copyright = "2026, The Rota authors"
version = release = _VERSION[1]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
# Headings get the same anchors as on a forge, so a link works in both places.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Rota {release}"
html_copy_source = False
html_show_sphinx = False

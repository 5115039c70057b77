"""Sphinx configuration; `make docs` builds with warnings as errors."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

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
html_static_path = ["_static"]
html_css_files = ["pages.css"]
nitpicky = True
# Quotes and dots stay as they were written: many stand in commands that people copy.
smartquotes = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
# Headings get the same anchors as on a forge, so a link works in both places.
myst_heading_anchors = 4

# Equations become MathML when the pages are built, so that they can be read without a network.
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"Rota {release}"
html_copy_source = False
html_show_sphinx = False


def _mathml(node: nodes.math | nodes.math_block, **form: Any) -> str:
    try:
        return str(tex2mathml(node.astext(), **form))
    except MathError as problem:
        logging.getLogger("conf").warning("%s", problem, location=node)
        return ""


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div style="padding: 0.5em 0">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))

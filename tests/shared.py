"""Where the reference data is, if it is there. It is never copied into the project."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[1].parent / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "expected").is_dir(), reason="the reference data folder is not beside the checkout"
)

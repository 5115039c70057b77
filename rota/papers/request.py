"""What a reproduction was asked to do."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceRequest:
    """From it a paper makes its cells."""

    scratch: Path
    """A folder for files that cells read; it goes away when they are done."""
    quick: bool = False
    data: Path | None = None
    """The folder with the paper's own data."""

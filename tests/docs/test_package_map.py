"""The map of the package names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted((ROOT / "rota").rglob("README.md"))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_it_names_is_there(readme: Path) -> None:
    named = [name for name in re.findall(r"`([\w/.]+)`", readme.read_text()) if name.endswith((".py", "/", ".md"))]
    assert named
    for name in named:
        assert (readme.parent / name).exists() or (ROOT / name).exists(), f"{readme.name} names {name}, which is not there"


@pytest.mark.parametrize("folder", ["core", "core/state", "core/fold", "core/plan", "core/learn", "live", "agent"])
def test_every_file_of_the_room_is_named(folder: str) -> None:
    text = (ROOT / "rota" / folder / "README.md").read_text()
    for file in (ROOT / "rota" / folder).glob("*.py"):
        assert file.name == "__init__.py" or f"`{file.name}`" in text, f"{file.name} is missing"

"""Names of classes: in the rooms around a live cluster no class is called like another class of the package."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"agent", "live", "server"}


def test_no_class_is_called_like_another() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "rota").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    ours = {name: paths for name, paths in twice.items() if any(path.split("/")[1] in ROOMS for path in paths)}
    assert not ours, f"rename all but one of each: {ours}"

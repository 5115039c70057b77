"""Names of classes: no two classes of the package have the same name."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_class_is_called_like_another() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "rota").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    assert found, "no class was found: the test looks in the wrong folder"
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert not twice, f"rename all but one of each: {twice}"

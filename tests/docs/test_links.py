"""Every relative link, anchor and quoted path in the Markdown files leads somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Made by a build, so it may be absent from a fresh checkout.
GENERATED = ("docs/_build",)
SKIPPED_FOLDERS = {"_build", "build", "dist", "node_modules", "__pycache__"}

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
INLINE_LINK = re.compile(r"\]\(\s*(?:<([^<>]*)>|([^\s()]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+[\"'(][^\"']*[\"')])?\s*\)")
LINK_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?", re.MULTILINE)
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
NAMED_TARGET = re.compile(r"^\(([^)\s]+)\)=\s*$|<a\s+(?:id|name)=\"([^\"]+)\"", re.MULTILINE)
QUOTED_PATH = re.compile(r"^(?:rota|tests|docs|benchmarks)/[\w./*-]*$")


def markdown_files(root: Path) -> list[Path]:
    def kept(file: Path) -> bool:
        folders = file.relative_to(root).parts[:-1]
        return not any(name.startswith(".") or name in SKIPPED_FOLDERS for name in folders)

    return sorted(file for file in root.rglob("*.md") if kept(file))


def without_fences(text: str) -> str:
    """The text with fenced blocks blanked out; line numbers stay."""
    lines, closing = [], ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if closing:
            if fence and fence[1].startswith(closing) and not line.strip().strip(closing[0]):
                closing = ""
            lines.append("")
        elif fence:
            closing = fence[1]
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def without_code(text: str) -> str:
    return CODE_SPAN.sub(lambda span: re.sub(r"[^\n]", " ", span[0]), without_fences(text))


def slug(heading: str) -> str:
    """The anchor of a heading, by the rule that forges and the documentation builder share."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    plain = re.sub(r"(?<!\w)[*_]+|[*_]+(?!\w)", "", plain)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(file: Path) -> set[str]:
    text = without_fences(file.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in HEADING.finditer(text):
        name, count = slug(heading[1]), 0
        while (name if count == 0 else f"{name}-{count}") in found:
            count += 1
        found.add(name if count == 0 else f"{name}-{count}")
    return found | {one or other for one, other in NAMED_TARGET.findall(text)}


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line and target of every link that stays in the repository."""
    plain = without_code(text)
    for link in INLINE_LINK.finditer(plain):
        yield plain.count("\n", 0, link.start()) + 1, link[1] or link[2] or ""
    for definition in LINK_DEFINITION.finditer(plain):
        yield plain.count("\n", 0, definition.start()) + 1, definition[1]


def quoted_paths(text: str) -> Iterator[tuple[int, str]]:
    """Line and path of every code span that names a file or folder of the repository."""
    plain = without_fences(text)
    for span in CODE_SPAN.finditer(plain):
        # A test is quoted as path::name, a place as path:line.
        path = re.sub(r"(::.*|:\d+(-\d+)?)$", "", span[2].strip())
        if QUOTED_PATH.match(path) and not path.startswith(GENERATED):
            yield plain.count("\n", 0, span.start()) + 1, path


def why_broken(target: str, file: Path, root: Path) -> str:
    """An empty string if the link target exists, else what is wrong with it."""
    if SCHEME.match(target) or target.startswith("//"):
        return ""
    if target.startswith("/"):
        return "an absolute path"
    path, _, anchor = unquote(target).partition("#")
    aim = (file.parent / path).resolve() if path else file.resolve()
    if not aim.is_relative_to(root.resolve()):
        return "outside the repository"
    if not aim.exists():
        return "no such file"
    if anchor and aim.suffix == ".md" and anchor not in anchors(aim):
        return f"no heading #{anchor}"
    return "" if path or anchor else "an empty link"


def broken(file: Path, root: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    name = file.relative_to(root).as_posix()
    found = [(line, f"link {target!r}: {why}") for line, target in links(text) if (why := why_broken(target, file, root))]
    for line, path in quoted_paths(text):
        if not (any(root.glob(path)) if "*" in path else (root / path).exists()):
            found.append((line, f"path {path!r}: no such file"))
    return [f"{name}:{line}: {message}" for line, message in sorted(found)]


def test_every_link_of_the_repository_works() -> None:
    files = markdown_files(ROOT)
    assert ROOT / "docs" / "index.md" in files
    found = [line for file in files for line in broken(file, ROOT)]
    assert not found, "\n" + "\n".join(found)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "rota").mkdir()
    (tmp_path / "rota" / "errors.py").write_text("", encoding="utf-8")
    (tmp_path / "docs" / "other.md").write_text(
        "# Other page\n\n## Jobs & `kinds`, *again*\n\n## Twice\n\n## Twice\n\n(by-name)=\n\n```\n# Not a heading\n```\n",
        encoding="utf-8",
    )
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x](missing.md)", "link 'missing.md': no such file"),
        ("![x](missing.png)", "link 'missing.png': no such file"),
        ('[x](missing.md "title")', "link 'missing.md': no such file"),
        ("[x](<missing page.md>)", "link 'missing page.md': no such file"),
        ("[x][y]\n\n[y]: missing.md", "link 'missing.md': no such file"),
        ("[x](other.md#nowhere)", "link 'other.md#nowhere': no heading #nowhere"),
        ("[x](other.md#not-a-heading)", "no heading #not-a-heading"),
        ("[x](other.md#twice-2)", "no heading #twice-2"),
        ("[x](#nowhere)", "link '#nowhere': no heading #nowhere"),
        ("[x](../../elsewhere.md)", "outside the repository"),
        ("[x](/docs/other.md)", "an absolute path"),
        ("[x]()", "an empty link"),
        ("see `rota/missing.py`", "path 'rota/missing.py': no such file"),
        ("see `rota/missing.py:12`", "path 'rota/missing.py': no such file"),
        ("see `tests/unit/test_x.py::test_y`", "path 'tests/unit/test_x.py': no such file"),
        ("see `rota/*.toml`", "path 'rota/*.toml': no such file"),
    ],
)
def test_a_broken_link_is_caught(tree: Path, text: str, message: str) -> None:
    page = tree / "docs" / "page.md"
    page.write_text(f"# Page\n\n{text}\n", encoding="utf-8")
    (found,) = broken(page, tree)
    assert message in found
    assert re.match(r"docs/page\.md:[35]: ", found)


@pytest.mark.parametrize(
    "text",
    [
        "[x](other.md)",
        "[x](./other.md#jobs--kinds-again)",
        "[x](other.md#twice-1)",
        "[x](other.md#by-name)",
        "[x](#page)",
        "[x](../rota/errors.py#L1)",
        "[x](https://example.org/missing.md) <https://example.org>",
        "`[x](missing.md)`",
        "```\n[x](missing.md) `rota/missing.py`\n```",
        "`rota/errors.py` `rota/errors.py:1` `rota/` `rota/*.py` `docs/_build/html` `rota sim`",
    ],
)
def test_a_working_link_passes(tree: Path, text: str) -> None:
    page = tree / "docs" / "page.md"
    page.write_text(f"# Page\n\n{text}\n", encoding="utf-8")
    assert broken(page, tree) == []

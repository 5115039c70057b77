"""Phrases that stop a reader: docstrings, comments, messages, help texts and pages do without them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Phrase(NamedTuple):
    pattern: re.Pattern[str]
    instead: str


def phrase(pattern: str, instead: str) -> Phrase:
    return Phrase(re.compile(pattern), instead)


EVERYWHERE = (
    phrase(
        r"\b[Ss]o (?:long|many|much|often|few|soon|little)\b(?! as\b)(?! that\b)",
        "name the quantity: how long, this many, longest wait in seconds",
    ),
    phrase(
        r"\b(?:[Tt]old|[Tt]elling|(?<!can't )(?<!cannot )[Tt]ells?)\b(?!(?: \S+){0,3} apart\b)",
        "a job reports, a scheduler sends, an operator gives, a file states, a function returns",
    ),
    phrase(r"\b(?:[Hh]eard|[Hh]ears?)\b", "receive, notice"),
    phrase(
        r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|[Ee]verybody|[Aa]nybody|[Tt]hose who|[Oo]ne who)\b",
        "the noun: job, node, user, scheduler; `unknown` for what nobody knows",
    ),
    phrase(
        r"(?<!here )\bis no (?!longer|more\b|less\b|need|way|reason|such|use|one\b|other|better|faster|slower|cheaper)[a-z]+",
        "is not a ...",
    ),
    phrase(
        r"\b(?:anew|once more|again and again|this very|all the same)\b|\bno more(?=[.,;:)]|$)",
        "again, retry, restart, no longer; this",
    ),
)
DOCSTRINGS = (
    phrase(
        r"\A(?:(?:It|Of|The same|And|Whose|Its|Those|They|Likewise)\b|\.\.\.)",
        "a noun phrase or a verb that can be read alone",
    ),
    phrase(r"\A\.\.\.|\.\.\.\Z", "a whole sentence"),
)
PAGES = (*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
GENERATED = ("docs/commands.md", "docs/python.md")
"""Pages written from docstrings and help texts."""

Text = tuple[int, str, tuple[Phrase, ...]]
"""The line on which a text begins, the text, and what is looked for in it."""


def texts_of_code(source: str) -> Iterator[Text]:
    """Docstrings, docs of fields, comments, and strings that have a blank."""
    tree = ast.parse(source)
    docs = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            text = node.value
        else:
            continue
        if id(node) in docs:
            yield node.lineno, text.strip(), (*EVERYWHERE, *DOCSTRINGS)
        elif " " in text:
            yield node.lineno, text, EVERYWHERE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, EVERYWHERE


def texts_of_page(source: str) -> Iterator[Text]:
    """Paragraphs, without blocks of code: those hold commands and their output."""
    prose = re.sub(r"^( *)(```|~~~).*?^\1\2", lambda block: "\n" * block[0].count("\n"), source, flags=re.M | re.S)
    line = 1
    for paragraph in re.split(r"(\n\n)", prose):
        yield line, paragraph, EVERYWHERE
        line += paragraph.count("\n")


def without_code(text: str) -> str:
    """The text with code spans blanked, on as many lines as before."""
    return re.sub(r"(`+)[^`]+\1", lambda span: "`" + "\n" * span[0].count("\n") + "`", text)


def found_in(file: Path) -> list[str]:
    source = file.read_text(encoding="utf-8")
    texts = texts_of_code(source) if file.suffix == ".py" else texts_of_page(source)
    found = []
    for line, text, phrases in texts:
        prose = without_code(text)
        for each in phrases:
            for hit in each.pattern.finditer(prose):
                place = f"{file.relative_to(ROOT)}:{line + prose[: hit.start()].count(chr(10))}"
                found.append(f"{place}  {hit[0]!r}: write instead: {each.instead}")
    return found


def written() -> dict[str, list[Path]]:
    """The files of each room and each page."""
    rooms: dict[str, list[Path]] = {}
    for file in sorted(each for suffix in ("py", "md", "js", "html") for each in (ROOT / "rota").rglob(f"*.{suffix}")):
        rooms.setdefault("/".join(file.relative_to(ROOT).parts[:2]), []).append(file)
    pages = {page.relative_to(ROOT).as_posix(): [page] for page in PAGES}
    return rooms | {name: files for name, files in pages.items() if name not in GENERATED}


WRITTEN = written()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_room_or_page_has_no_phrase_that_stops_a_reader(name: str) -> None:
    found = [each for file in WRITTEN[name] for each in found_in(file)]
    assert not found, "\n".join(found)

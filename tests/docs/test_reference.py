"""The reference matches the code, and the other pages name no flag that does not exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from docs.reference import DOCS, FACE, PAGES, WIDTH, flags_of_commands
from rota.wire.slurm_directives import BY_NAME
from tests.docs.test_links import ROOT, anchors, markdown_files, without_fences

FLAGS = flags_of_commands()
EVERY_FLAG = set().union(*FLAGS.values())
OTHER_TOOLS = {"--hook-type", "--require-hashes"}
"""Flags of other programs that a page names."""
OPTIONS_OF_SBATCH = {f"--{name}" for name in BY_NAME}
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A page of another day may name flags of its day.
PAGES_TO_READ = [file for file in markdown_files(ROOT) if file.name != "CHANGELOG.md" and "decisions" not in file.parts]


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES)
def test_it_is_what_the_code_says(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "Next: make docs-update"


def test_every_public_name_is_on_the_page_of_python() -> None:
    headings = set(re.findall(r"^### rota\.(\S+)$", (DOCS / "python.md").read_text(), re.MULTILINE))
    assert {name.replace("\\", "") for name in headings} == set(rota.__all__)
    assert {name for names in FACE.values() for name in names} <= set(rota.__all__)


def test_every_command_and_every_flag_is_on_the_page_of_commands() -> None:
    text = (DOCS / "commands.md").read_text()
    sections = dict(re.findall(r"^## (rota[^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    commands = {name for name in FLAGS if not any(other.startswith(f"{name} ") for other in FLAGS)}
    assert set(sections) == commands and len(commands) > 20
    for name, section in sections.items():
        named = set(re.findall(r"`(--?[a-z][\w-]*)", section.split("| | | if left out |")[-1]))
        assert FLAGS[name] - {"-h", "--help"} == named - {"-h", "--help"}, name
        assert name.replace(" ", "-") in anchors(DOCS / "commands.md")


def command_lines(text: str) -> Iterator[str]:
    """Commands in code blocks; those over several lines as one."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"(?:\$ |\.venv/bin/)?rota \w", line):
                yield re.sub(r"^(?:\$ |\.venv/bin/)", "", line)


def unknown_flags(line: str) -> set[str]:
    """Flags that the command of this line does not take."""
    words = shlex.split(line, comments=True)
    name = max((each for each in FLAGS if words[: len(each.split())] == each.split()), key=len, default="rota")
    flags = set()
    for word in words:
        if word in ("--", "&", "|", ";", ">"):
            break
        if re.match(r"--?[a-z]", word):
            flags.add(word.partition("=")[0])
    return {f"{name} {flag}" for flag in flags - FLAGS[name]}


@pytest.mark.parametrize("page", PAGES_TO_READ, ids=name_of)
def test_every_flag_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not set().union(*(unknown_flags(line) for line in command_lines(text)))
    spans = re.findall(r"`(--[a-z][\w-]*)[^`]*`", without_fences(text))
    assert not set(spans) - EVERY_FLAG - OTHER_TOOLS - (OPTIONS_OF_SBATCH if page.stem == "slurm" else set())


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("rota sim --trace demo --html page.html", set()),
        ("rota sim --trace demo --htm page.html", {"rota sim --htm"}),
        ("rota policy solve x.json --policy fifo -o json", set()),
        ("rota policy list --policy fifo", {"rota policy list --policy"}),
        ("rota submit --gpus 2 -- python train.py --lr 0.1  # a command", set()),
        ("rota --version", set()),
    ],
)
def test_an_unknown_flag_is_caught(line: str, unknown: set[str]) -> None:
    assert unknown_flags(line) == unknown


@pytest.mark.parametrize("page", PAGES_TO_READ, ids=name_of)
def test_no_code_block_is_wider_than_the_page(page: Path) -> None:
    wide = [line for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines() if len(line) > WIDTH]
    assert not wide, f"fold these to {WIDTH} columns: {wide}"

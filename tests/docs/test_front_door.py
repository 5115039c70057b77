"""The documentation opens on the commands, a picture and four doors, and sorts every page as one of five kinds."""

import re
from pathlib import Path

from rota.cli.job_text import REASONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
KINDS = ("Tutorials", "How-tos", "Reference", "Background", "Contributing")


def test_it_opens_on_the_two_commands_the_picture_and_four_doors() -> None:
    marks = ("pip install rota-scheduler", "rota demo", "make demo", "make test", "](images/page-top.png)", "{container} doors")
    places = [INDEX.index(mark) for mark in marks]
    assert places == sorted(places)
    assert re.findall(r"^### (.*)$", INDEX, re.MULTILINE) == [
        "I compare policies",
        "I submit jobs",
        "I run the machines",
        "I extend Rota",
    ]


def test_the_readme_starts_from_the_package_too() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert block[0] == "pip install rota-scheduler" and block[1].startswith("rota demo ")
    assert text.index("MEAN JCT") < text.index("make demo"), "a checkout comes later"


def test_every_page_is_of_one_kind() -> None:
    trees = re.findall(r"```\{toctree\}\n:hidden:\n:maxdepth: 1\n:caption: (.*?)\n\n(.*?)```", INDEX, re.DOTALL)
    assert tuple(caption for caption, _ in trees) == KINDS
    sorted_pages = [page for _, pages in trees for page in pages.split()]
    assert len(sorted_pages) == len(set(sorted_pages))
    policies = (DOCS / "policies.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        if page.parent.name == "policies":
            assert f"\n{name}\n" in policies, name
        elif name != "index" and (page.parent.name != "decisions" or page.name == "index.md"):
            assert name in sorted_pages, name


def test_the_table_of_pages_is_sorted_alike() -> None:
    rows = dict(re.findall(r"^\| (\S+) \| (.*) \|$", INDEX, re.MULTILINE))
    trees = dict(re.findall(r":caption: (.*?)\n\n(.*?)```", INDEX, re.DOTALL))
    for kind in KINDS:
        assert re.findall(r"\]\(([\w/-]+)\.md\)", rows[kind]) == trees[kind].split(), kind


def test_the_readme_writes_the_command_in_one_way() -> None:
    blocks = re.findall(r"```\w+\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if re.search(r"\brota (sim|compare|up|submit|jobs)\b", line)]
    assert len(lines) > 4 and all(line.startswith("rota ") for line in lines)


def test_every_reason_to_wait_is_explained() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)
    assert set(rows) == set(REASONS)

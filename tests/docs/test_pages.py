"""The commands on the pages of policies print what the pages say, and the files they use are the ones in examples."""

import dataclasses
import re
from pathlib import Path

import pytest

from rota.compose.registry import POLICY_REGISTRY
from rota.solver.program import Program, Solution
from tests.docs.pages import EXAMPLES, PAGES, ROOT, alike, commands, files, output_of, workbench


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_print_what_it_says(page: Path, tmp_path: Path) -> None:
    shown = commands(page)
    assert shown and len(shown) == page.read_text().count("```sh\n")
    with workbench(tmp_path):
        for one in shown:
            printed = output_of(one.command)
            assert alike(one.output, printed), f"{one.command}\n{printed}\nNext: python -m tests.docs.pages"


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("docs/write-an-objective.md", "budget.py"),
        ("docs/shares-to-rounds.md", "instance.json"),
        ("docs/shares-to-rounds.md", "tenants.yaml"),
    ],
)
def test_an_example_is_shown_as_it_is(page: str, file: str) -> None:
    assert (EXAMPLES / file).read_text() in files(ROOT / page)


def test_an_objective_of_your_own_is_short() -> None:
    assert len((EXAMPLES / "budget.py").read_text().splitlines()) < 40


def test_everything_the_reference_names_exists() -> None:
    text = (ROOT / "docs/write-an-objective.md").read_text()
    tables = re.findall(r"\n\n((?:\|[^\n]*\n)+)", text)
    names = [name for table in tables for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)[`(]", row.split("|")[1])]
    arguments, rest = set(names[:5]), set(names[5:])
    assert arguments == {"by_job", "by_weight", "apart", "type_aware", "colocation"} and len(rest) > 18
    made = set(dir(Program)) | set(dir(Solution)) | {"value", "prices", "limit_duals"}
    assert rest <= made, rest - made


def test_every_policy_has_a_page_that_names_its_options() -> None:
    index = (ROOT / "docs/policies.md").read_text()
    for name in POLICY_REGISTRY.builtin:
        page = ROOT / f"docs/policies/{name}.md"
        if name == "gavel":
            continue  # another name of max-min-fairness
        assert f"](policies/{name}.md)" in index, name
        kind = POLICY_REGISTRY.find(name)
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in page.read_text(), f"{name}: {field.name}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("fifo 2.00h 71%", "fifo 121m 71%", True),
        ("fifo 2.00h 71%", "fifo 3.00h 71%", False),
        ("fifo 1,338", "fifo 1,300", True),
        ("fifo 0.5", "sjf 0.5", False),
        ("fifo", "fifo 1", False),
        ("solved in 1.0 ms", "solved in 70.2 ms", True),
        ('{"solve_seconds": 1.0, "a": [0.5]}', '{"solve_seconds": 9.0, "a": [0.51]}', True),
        ('{"solve_seconds": 1.0, "a": [0.5]}', '{"solve_seconds": 1.0, "a": [0.7]}', False),
    ],
)
def test_what_counts_as_the_same(shown: str, printed: str, same: bool) -> None:
    assert alike(shown, printed) == same

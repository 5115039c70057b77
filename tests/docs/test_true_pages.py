"""The front pages are true: their examples work, and what they list as missing is missing."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.main import COMMANDS, GROUPS
from rota.compose.file_check import check_file
from rota.compose.registry import PLACERS, POLICIES
from rota.core.plan import planner
from rota.model.accelerators import ACCELERATORS
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.profiles.workloads import WORKLOADS
from rota.traces.read_trace import FORMATS
from rota.wire.spec import Spec
from tests.docs.test_reference import EVERY_FLAG

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FRONT = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in ("commands", "comparison", "spec", "contributing/job-walkthrough", "glossary", "troubleshooting")
    ),
]
YAML = re.compile(r"(?<!as `wrong\.yaml`:\n\n)```yaml\n(.*?)```", re.DOTALL)
EXAMPLES = [
    (page.stem, number, text) for page in sorted(DOCS.glob("*.md")) for number, text in enumerate(YAML.findall(page.read_text()))
]

CONFIGURATION = "configuration"
"""Page whose example is no file for `rota check`."""

MISSING = {
    "no job arrays or notifications": {"array", "arrays", "notify"},
    "does not start containers, copy data or rent machines": {"container", "containers", "image", "sync", "launch", "cloud"},
    "licences are not resources": {"licences"},
    "Rota does not run on Kubernetes": {"kubernetes", "k8s", "kubeconfig"},
    "Job arrays and notifications have no fields": {"array", "arrays", "notify"},
}  # fmt: skip
"""What a page calls missing -> fields, commands and flags that would make it untrue."""

PROMISES = re.compile(
    r"(?:is|are) planned\b|comes next\b|don't work yet|not in this version|no driver yet|will be (?:built|added)"
)


def text_of(name: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / name).read_text(encoding="utf-8").replace("**", ""))


@pytest.mark.parametrize(
    ("page", "number", "text"),
    [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in EXAMPLES if each[0] != CONFIGURATION],
)
def test_an_example_in_yaml_can_be_used(
    page: str, number: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"([A-Z_]+): *[,}]", text):
        monkeypatch.setenv(name, "passed on")
    part = not re.search(r"^(?:run|nodes|tenants|[\w-]+: *\{weight)", text, re.MULTILINE)
    (tmp_path / "example.yaml").write_text("run: train\n" + text if part else text)
    assert check_file("example.yaml").kind in ("job spec", "cluster", "tenants")


def test_the_example_of_a_configuration_file_can_be_used(tmp_path: Path) -> None:
    (text,) = [text for page, _, text in EXAMPLES if page == CONFIGURATION]
    (tmp_path / "config.yaml").write_text(text)
    words = [sys.executable, "-m", "rota", "config", "-o", "json"]
    env = {**os.environ, "ROTA_CONFIG": str(tmp_path / "config.yaml")}
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {each["setting"] for each in json.loads(done.stdout)["settings"]} >= {"home", "submit.tenant", "policy.list.output"}


def test_the_example_of_the_spec_has_every_field_of_a_kind() -> None:
    example = next(text for page, _, text in EXAMPLES if page == "spec")
    used = set(re.findall(r"^(\w+):", example, re.MULTILINE))
    assert used <= set(Spec.model_fields) and len(used) > 12


@pytest.mark.parametrize("phrase", MISSING)
def test_what_is_called_missing_is_missing(phrase: str) -> None:
    assert any(phrase in text_of(str(page.relative_to(ROOT))) for page in FRONT), "the page says something else by now"
    there = {*Spec.model_fields, *COMMANDS, *GROUPS} | {flag.strip("-").replace("-", "_") for flag in flags_of_submit()}
    assert not MISSING[phrase] & there


def flags_of_submit() -> set[str]:
    from tests.docs.test_reference import FLAGS

    return FLAGS["rota submit"] | FLAGS["rota up"]


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.stem)
def test_no_front_page_makes_promises(page: Path) -> None:
    assert PROMISES.findall(re.sub(r"\s+", " ", page.read_text())) == []


@pytest.mark.parametrize("text", ["a cluster through Ray comes next", "`after` is planned", "some fields don't work yet"])
def test_a_promise_is_noticed(text: str) -> None:
    assert PROMISES.search(text)


def test_what_is_compared_is_there_or_is_not() -> None:
    page = text_of("docs/comparison.md")
    for policy in ("goodput", "optimus", "ones", "tiresias", "las", "gandiva"):
        assert f"`{policy}`" in page and policy in POLICIES
    assert "Its repository has Pollux, and Synergy" in page and "Rota has neither" in page
    assert not {"pollux", "synergy"} & {*POLICIES, *PLACERS}
    assert "Jobs on several GPUs are not parked" in page
    assert "A cluster needs Ray" in page and "--ray" in EVERY_FLAG
    peers = "Slurm Kueue KAI Volcano SkyPilot Run:ai Cedana MemVerge gflow Spur Armada Gavel Blox Sia"
    for peer in peers.split():
        assert re.search(rf"^## .*\b{peer}\b", (DOCS / "comparison.md").read_text(), re.MULTILINE), peer


def test_every_source_is_cited_and_every_citation_has_a_source() -> None:
    text = (DOCS / "comparison.md").read_text()
    body, sources = text.split("## Sources")
    assert {int(each) for each in re.findall(r"\[(\d+)\](?!\()", body)} == {
        int(each) for each in re.findall(r"^(\d+)\. ", sources, re.MULTILINE)
    }


def test_readme_names_policies_that_exist() -> None:
    bullets = re.findall(
        r"^- \*\*(?:Policies|Objectives|Elastic jobs)\*\*(.*?)(?=^- )", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    named = {name for bullet in bullets for name in re.findall(r"`([a-z-]+)`", bullet)}
    assert len(bullets) == 3 and named <= set(POLICIES) and set(POLICIES) - named <= {"gavel"}


def test_readme_counts_what_there_is() -> None:
    page = text_of("README.md")
    assert f"catalogue](docs/profiles.md) of {len(WORKLOADS)} models on {len(ACCELERATORS)} accelerator types" in page
    assert len(FORMATS) == 11 and "[eleven trace formats]" in page


def test_readmes_times_to_park_are_those_that_were_measured() -> None:
    rows = re.findall(r"^\| (\d+ GiB) \| ([\d.]+ s) \| ([\d.]+ s) \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    measured = (DOCS / "papers/real-gpu.md").read_text()
    assert len(rows) == 3
    for held, park, resume, saved in rows:
        cells = next(line for line in measured.splitlines() if line.startswith(f"| {held} |")).split("|")
        assert (cells[4].strip(), cells[6].strip()) == (park, resume)
        if saved != "not measured":
            assert f"| {saved.replace(' and ', ', ')} |" in measured
    first = re.search(r"^\| 20 GiB \| 8 \| ([\d.]+ s) \|", measured, re.MULTILINE)
    assert first is not None and f"({first[1]} for 20 GiB)" in text_of("README.md")


def test_the_walk_names_files_that_exist() -> None:
    page = (DOCS / "contributing/job-walkthrough.md").read_text()
    named = set(re.findall(r"`((?:rota|tests)/[\w/]+\.py)`", page))
    assert len(named) > 15 and all((ROOT / name).is_file() for name in named)
    steps = re.findall(r"# (?:.* )?(\d)\. ", inspect.getsource(planner._draw_up))
    assert steps[-1] == "8" and "eight numbered steps" in page


def test_every_file_that_a_page_names_exists() -> None:
    for page in [*FRONT, *DOCS.rglob("*.md")]:
        for name in re.findall(r"`(rota/[\w/]+\.py)`", page.read_text()):
            assert (ROOT / name).is_file(), f"{page.name}: {name}"


def test_the_glossary_knows_every_phase() -> None:
    page = text_of("docs/glossary.md")
    entry = page[page.index("phase (") : page.index("attempt (")]
    assert all(phase.name.lower() in entry for phase in Phase)


def test_every_reason_is_given_by_some_code() -> None:
    code = "".join(file.read_text() for room in ("core", "beliefs") for file in (ROOT / "rota" / room).rglob("*.py"))
    for reason in Reason:
        assert re.search(rf"\bReason\.{reason.name}\b", code), f"no code gives {reason.name}"

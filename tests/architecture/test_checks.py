"""Hosted CI, the hooks before a commit, the lock files and the Makefile agree with each other and with pyproject.toml."""

import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ".github/workflows/test.yml"
HOOKS = ".pre-commit-config.yaml"
LOCKS = ("requirements.lock", "requirements-dev.lock")

Version = tuple[int, ...]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def targets() -> set[str]:
    """What `make` can be asked for by name."""
    return set(re.findall(r"^([a-z-]+):(?!=)", text("Makefile"), re.MULTILINE))


def version(given: str) -> Version:
    return tuple(int(part) for part in given.split("."))


def project() -> dict[str, Any]:
    return tomllib.loads(text("pyproject.toml"))["project"]


def job(name: str = "test") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text(WORKFLOW))["jobs"][name]
    return found


def hooks() -> list[dict[str, Any]]:
    return [hook for repo in yaml.safe_load(text(HOOKS))["repos"] for hook in repo["hooks"]]


def pins(lock: str) -> dict[str, set[str]]:
    """The versions of each package; one that differs by Python has several."""
    found = defaultdict[str, set[str]](set)
    for name, pinned in re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", text(lock), re.MULTILINE):
        found[name].add(pinned)
    return found


def test_hosted_ci_runs_the_two_commands_and_nothing_else() -> None:
    assert [step["run"] for step in job()["steps"] if "run" in step] == ["make demo", "make test"]
    assert [step["run"] for step in job("all")["steps"] if "run" in step] == ["make test-all"], "every night"
    assert {"demo", "test"} <= targets()
    assert job()["runs-on"] == "ubuntu-latest"


def test_the_other_ci_runs_the_tests_and_nothing_else() -> None:
    lines = [line for line in text(".ci/run").splitlines() if not line.startswith(("#", "set ", "cd "))]
    assert lines == ["make test"]


def test_actions_are_pinned_to_a_major_version_and_packages_are_cached() -> None:
    used = {name: step.get("with", {}) for step in job()["steps"] if (name := step.get("uses"))}
    assert len(used) == 2 and all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used)
    (python,) = (given for name, given in used.items() if name.startswith("actions/setup-python@"))
    assert python["cache"] == "pip" and python["python-version"] == "${{ matrix.python }}"
    assert {path.name for path in ROOT.glob(python["cache-dependency-path"])} == set(LOCKS)


def test_hosted_ci_takes_the_oldest_and_the_newest_python_that_is_promised() -> None:
    told = project()
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in told["classifiers"]]
    classified = sorted(version(each[1]) for each in found if each)
    run = [version(each) for each in job()["strategy"]["matrix"]["python"]]
    assert run == [classified[0], classified[-1]]
    assert told["requires-python"] == ">=" + ".".join(map(str, run[0]))


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_a_hook_runs_a_target_of_the_makefile(hook: dict[str, Any]) -> None:
    command, *asked = hook["entry"].split()
    assert command == "make" and asked == [hook["id"]] and hook["id"] in targets()
    assert hook["language"] == "system" and hook["pass_filenames"] is False


def test_hooks_come_from_nowhere_else() -> None:
    assert [repo["repo"] for repo in yaml.safe_load(text(HOOKS))["repos"]] == ["local"]
    assert {"lint", "typecheck"} <= {hook["id"] for hook in hooks()}


def test_every_target_is_declared_and_explained() -> None:
    declared = re.search(r"^\.PHONY: (help .*)$", text("Makefile"), re.MULTILINE)
    assert declared and set(declared[1].split()) == targets()
    explained = set(re.findall(r"@echo 'make ([a-z-]+) ", text("Makefile")))
    assert targets() - explained == {"help"}


def test_the_locks_agree_and_every_pin_has_a_hash() -> None:
    package, tools = pins(LOCKS[0]), pins(LOCKS[1])
    assert "numpy" in package and "pytest" in tools and "pytest" not in package
    assert {name: tools[name] for name in package} == package
    for lock in LOCKS:
        entries = re.split(r"^(?=[a-z0-9])", text(lock), flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in entry for entry in entries)
        assert "://" not in text(lock), "a lock names no registry"


def test_the_locks_hold_what_the_package_asks_for() -> None:
    told = project()
    extras = told["optional-dependencies"]

    def names(given: list[str]) -> set[str]:
        return {re.split(r"[^\w.-]", each)[0] for each in given}

    assert names([*told["dependencies"], *extras["editable"]]) <= set(pins(LOCKS[0]))
    assert names(extras["dev"]) <= set(pins(LOCKS[1]))


def test_what_quick_runs_and_leaves_out_is_there() -> None:
    """A name that has gone would be left out of nothing, without a word."""
    lists = re.findall(r"^QUICK := ((?:.*\\\n)*.*)$", text("Makefile"), re.MULTILINE)
    paths = [path.strip("'").partition("::")[0] for each in lists for path in each.replace("\\\n", " ").split()]
    assert len(lists) == 1 and len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []

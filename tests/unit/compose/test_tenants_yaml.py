"""The operator's tenants: a good file, and each way to get one wrong, with its line."""

from pathlib import Path

import pytest

from rota.compose.registry import make_policy
from rota.compose.tenants_yaml import read_tenants
from rota.errors import OptionError, SpecError
from rota.model.tenants import Tenants, lineage
from rota.policies.hierarchical import Hierarchical

GOOD = """\
vision:
  weight: 2
  policy: fairness
  tenants:
    pretraining: {weight: 3, policy: fifo}
    labs:
      tenants:
        ana: {weight: 0.5}
        bo:
speech: {weight: 1}
guests:
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "tenants.yaml"


def test_a_good_file(written: Path) -> None:
    written.write_text(GOOD)
    found = read_tenants(written)
    assert found.weights == {
        "vision": 2.0,
        "vision/pretraining": 3.0,
        "vision/labs": 1.0,
        "vision/labs/ana": 0.5,
        "vision/labs/bo": 1.0,
        "speech": 1.0,
        "guests": 1.0,
    }
    assert found.policies == {"vision": "fairness", "vision/pretraining": "fifo"}


def test_who_is_not_listed_has_weight_one_and_shares_as_those_above_it(written: Path) -> None:
    written.write_text(GOOD)
    found = read_tenants(written)
    assert found.weight("vision/pretraining/new") == 1.0 and found.policy("vision/pretraining/new") == "fifo"
    assert found.policy("vision/labs/ana") == "fairness" and found.policy("elsewhere") == "fairness" == found.policy("")
    assert Tenants({}, {"": "fifo"}).policy("anybody") == "fifo"


def test_a_policy_takes_the_file_by_its_path(written: Path) -> None:
    written.write_text(GOOD)
    made = make_policy(f"hierarchical:tenants={written}")
    assert isinstance(made, Hierarchical) and made.tenants == read_tenants(written)


def test_a_path_is_its_steps() -> None:
    assert lineage("a/b/c") == ["a", "a/b", "a/b/c"]
    assert lineage("/a//b/") == ["a", "a/b"] and lineage("") == [] == lineage("/")


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("vision:\n  wieght: 2\n", 2, ("wieght", "weight")),
        ("vision:\n  weight: 2\n  tenants:\n    a:\n      polcy: fifo\n", 5, ("polcy", "policy")),
        ("vision: {weight: 0}\n", 1, ("weight", "0")),
        ("a: {}\nvision: {weight: -1}\n", 2, ("weight", "-1")),
        ("vision: {weight: heavy}\n", 1, ("weight", "heavy")),
        ("vision: {weight: .inf}\n", 1, ("weight",)),
        ("vision: {weight: .nan}\n", 1, ("weight",)),
        ("vision: {weight: [1]}\n", 1, ("weight",)),
        ("vision:\n  policy: lifo\n", 2, ("policy", "lifo", "fairness, fifo")),
        ("vision:\n  policy: 3\n", 2, ("policy",)),
        ("vision: 3\n", 1, ("vision",)),
        ("a/b: {}\n", 1, ("a/b",)),
        ("'': {}\n", 1, ("name of a tenant",)),
        ("vision:\n  tenants: [a, b]\n", 2, ("tenants",)),
        ("- vision\n", 1, ()),
        ("vision\n", 1, ()),
        ("vision: {weight: 1\n", None, ()),
        ("vision: {weight: 1}\nvision: {weight: 2}\n", 2, ("vision",)),
    ],
)
def test_what_is_wrong_is_named_with_its_line(written: Path, text: str, line: int | None, parts: tuple[str, ...]) -> None:
    written.write_text(text)
    with pytest.raises(SpecError) as raised:
        read_tenants(written)
    assert str(written) in raised.value.message and raised.value.hint
    if line is not None:
        assert f"{written}:{line}" in raised.value.message
    for part in parts:
        assert part in raised.value.message


@pytest.mark.parametrize("text", ["", "# nobody yet\n", "{}\n"])
def test_an_empty_file_is_everybody_alike_or_says_so(written: Path, text: str) -> None:
    written.write_text(text)
    try:
        assert read_tenants(written) == Tenants()
    except SpecError as problem:
        assert str(written) in problem.message and problem.hint


def test_no_such_file_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yaml"):
        read_tenants(tmp_path / "absent.yaml")


@pytest.mark.parametrize("weight", [0.0, -2.0, float("inf"), float("nan")])
def test_a_weight_must_be_a_number_above_nothing(weight: float) -> None:
    with pytest.raises(OptionError, match="weight of tenant 'a'"):
        Tenants({"a": weight})


def test_an_unknown_way_to_share_is_refused() -> None:
    with pytest.raises(OptionError, match="fairness, fifo"):
        Tenants({}, {"a": "lifo"})

"""The operator's tenants: a good file, and each way to get one wrong, with its line."""

from pathlib import Path

import pytest

import rota
from rota.api import prepare
from rota.compose.registry import make_policy
from rota.compose.tenants_yaml import check_owners, check_tenants, read_tenants
from rota.errors import OptionError, SpecError
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.model.tenants import Guarantee, Tenants, lineage
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


WHOLE = """\
tenants:
  vision:
    guarantee: {v100: 8, K80: 2}
    cap: 32
    tenants:
      labs: {guarantee: {V100: 4}, user_cap: 2}
  speech: {guarantee: 4, user_cap: 3}
  other:
user_cap: 6
unknown: other
fairness: decay
half_life: 2d
turn: 5m
reference: k80
"""


def test_a_file_with_guarantees_and_caps(written: Path) -> None:
    written.write_text(WHOLE)
    found = read_tenants(written)
    assert found.guarantees["vision"] == Guarantee(10.0, {"V100": 8.0, "K80": 2.0})
    assert found.caps == {"vision": 32.0}
    assert found.user_caps == {"vision": 6.0, "vision/labs": 2.0, "speech": 3.0, "other": 6.0}
    assert (found.unknown, found.fairness, found.half_life_seconds, found.turn_seconds) == ("other", "decay", 172_800.0, 300.0)
    assert found.reference == "K80"
    assert found.home_of("vision/labs/new") == "vision/labs" and found.home_of("") == found.home_of("nobody") == "other"
    assert found.cap_of("vision/labs") == 2.0 and found.cap_of("speech") == 3.0
    assert found.guarantee("") == Guarantee(14.0), "mixed with a number of any type only the sum is known"


def test_jobs_of_unknown_tenants_are_refused_or_in_a_tenant_of_their_own(written: Path) -> None:
    written.write_text("tenants: {a: {guarantee: 2}}\nunknown: refuse\n")
    assert read_tenants(written).home_of("b") is None
    written.write_text("tenants: {a: {guarantee: 2}}\n")
    assert read_tenants(written).home_of("b") == "default" and read_tenants(written).paths == ("a", "default")


def test_a_tenant_without_a_guarantee_has_what_those_below_it_have(written: Path) -> None:
    written.write_text("tenants: {a: {tenants: {x: {guarantee: {V100: 2}}, y: {guarantee: {V100: 3}}}}}\n")
    assert read_tenants(written).guarantee("a") == Guarantee(5.0, {"V100": 5.0})


MEMBERS = """\
tenants:
  vision:
    members: [ana, leo]
    max_jobs: 100
    tenants:
      labs: {members: eve, user_max_jobs: 5}
      pretraining:
  speech: {members: [leo]}
  closed: {members: []}
user_max_jobs: 20
"""


def test_members_and_limits_on_jobs(written: Path) -> None:
    written.write_text(MEMBERS)
    found = read_tenants(written)
    assert found.members == {"vision": ("ana", "leo"), "vision/labs": ("eve",), "speech": ("leo",), "closed": ()}
    assert found.max_jobs == {"vision": 100}
    assert found.user_max_jobs == {"vision": 20, "vision/labs": 5, "speech": 20, "closed": 20}
    assert found.members_of("vision/pretraining") == ("ana", "leo"), "as the tenant above"
    assert found.members_of("vision/labs") == ("eve",) and found.members_of("default") is None
    assert found.open_to("ana") == ["default", "vision", "vision/pretraining"] and found.open_to("new") == ["default"]
    assert found.job_limits("vision/labs", "eve") == [("vision", None, 100), ("vision/labs", "eve", 5)]
    assert found.job_limits("vision/pretraining", "ana") == [("vision", None, 100), ("vision", "ana", 20)]
    assert found.job_limits("default", "ana") == []


def test_the_only_inner_tenant_of_a_member_is_the_tenant_of_jobs_that_name_none(written: Path) -> None:
    written.write_text(MEMBERS)
    found = read_tenants(written)
    assert found.tenant_of_member("ana") == "vision/pretraining", "vision has tenants below it"
    assert found.tenant_of_member("eve") == "vision/labs"
    assert found.tenant_of_member("leo") is None, "a member of two"
    assert found.tenant_of_member("new") is None, "an open tenant has no members"


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("tenants:\n  a:\n    members:\n", 3, ("members", "no users")),
        ("tenants:\n  a: {members: {ana: 1}}\n", 2, ("members", "not a list")),
        ("tenants:\n  a:\n    members: [ana, true]\n", 3, ("members[2]", "not text")),
        ("tenants:\n  a:\n    members:\n    - ana\n    - ana\n", 5, ("members[2]", "twice")),
        ("tenants:\n  a: {max_jobs: 0}\n", 2, ("max_jobs", "at least 1")),
        ("tenants:\n  a: {user_max_jobs: 1.5}\n", 2, ("user_max_jobs", "whole number")),
        ("tenants: {a: {}}\nuser_max_jobs: many\n", 2, ("user_max_jobs",)),
        ("tenants:\n  a: {member: [ana]}\n", 2, ("member", "members")),
    ],
)
def test_what_is_wrong_with_members_and_limits_is_named(
    written: Path, text: str, line: int | None, parts: tuple[str, ...]
) -> None:
    test_what_is_wrong_is_named_with_its_line(written, text, line, parts)


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("tenants:\n  a: {guarantee: -1}\n", 2, ("guarantee", "-1")),
        ("tenants:\n  a: {guarantee: 2.5}\n", 2, ("guarantee", "whole number")),
        ("tenants:\n  a:\n    guarantee: {V100: many}\n", 3, ("V100", "many")),
        ("tenants:\n  a: {cap: 0}\n", 2, ("cap", "at least 1")),
        ("tenants:\n  a: {guarantee: 4, cap: 2}\n", 2, ("guarantee", "cap of 2")),
        ("tenants:\n  a:\n    guarantee: 4\n    tenants: {x: {guarantee: 3}, y: {guarantee: 2}}\n", 2, ("4 GPUs", "5 to the")),
        ("tenants:\n  a:\n    guarantee: {V100: 4}\n    tenants: {x: {guarantee: {K80: 2}}}\n", 2, ("K80", "2 below it")),
        ("tenants: {a: {}}\nfairness: luck\n", 2, ("luck", "credits, decay, none")),
        ("tenants: {a: {}}\nhalf_life: long\n", 2, ("half_life", "length of time")),
        ("tenants: {a: {}}\nunknown: b\n", 2, ("unknown", "b")),
        ("tenants: {a: {}}\nuser_cap: 0\n", 2, ("user_cap",)),
        ("tenants: {a: {}}\nfairnes: decay\n", 2, ("fairnes", "fairness")),
        ("tenants: {refuse: {}}\n", 1, ("refuse", "not the name of a tenant")),
        ("fairness: decay\n", None, ("has no tenants",)),
    ],
)
def test_what_is_wrong_with_guarantees_and_caps_is_named(
    written: Path, text: str, line: int | None, parts: tuple[str, ...]
) -> None:
    test_what_is_wrong_is_named_with_its_line(written, text, line, parts)


def test_guarantees_that_the_cluster_cannot_keep_are_refused(written: Path) -> None:
    written.write_text("tenants: {a: {guarantee: 6}, b: {guarantee: {K80: 3}}}\n")
    tenants = read_tenants(written)
    check_tenants(tenants, Cluster.parse("6xV100 + 3xK80"), "t.yaml")
    with pytest.raises(OptionError, match="add up to 9 GPUs, and the cluster has 8"):
        check_tenants(tenants, Cluster.parse("5xV100 + 3xK80"), "t.yaml")
    with pytest.raises(OptionError, match="3 GPUs of K80, and the cluster has 2"):
        check_tenants(tenants, Cluster.parse("8xV100 + 2xK80"), "t.yaml")
    with pytest.raises(OptionError, match="reference type P100"):
        check_tenants(Tenants({"a": 1.0}, reference="P100"), Cluster.parse("8xV100"), "t.yaml")


def test_jobs_that_can_never_run_by_the_file_are_refused() -> None:
    tenants = Tenants({"a": 1.0}, caps={"a": 2.0}, unknown="refuse")
    check_owners(tenants, [JobSpec(gpus=2, tenant="a"), JobSpec(gpus=8, gpu_counts=(1, 8), tenant="a")], "t.yaml")
    with pytest.raises(OptionError, match=r"1 job alone exceed a cap; the first asks for 4 GPUs"):
        check_owners(tenants, [JobSpec(gpus=4, tenant="a")], "t.yaml")
    with pytest.raises(OptionError, match=r"2 jobs of unknown tenants; the first has no tenant"):
        check_owners(tenants, [JobSpec(), JobSpec(tenant="b")], "t.yaml")


def test_one_file_serves_the_planner_and_the_policy_hierarchical(written: Path) -> None:
    written.write_text("tenants: {tenant-1: {weight: 3, guarantee: 4}, tenant-2: {cap: 6}}\n")
    prepared = prepare("synthetic:jobs=20,gpus=8,largest=4,tenants=2", policy="hierarchical", cluster="8xV100", tenants=written)
    assert isinstance(prepared.policy, Hierarchical) and prepared.policy.tenants == prepared.setup.tenants
    assert prepared.setup.tenants is not None and prepared.setup.tenants.caps == {"tenant-2": 6.0}


def test_a_simulation_shows_what_tenants_got(written: Path) -> None:
    written.write_text("tenants: {tenant-1: {guarantee: 4}, tenant-2: {guarantee: 2}}\n")
    found = rota.simulate("synthetic:jobs=40,gpus=8,largest=4,tenants=2", policy="las", cluster="8xV100", tenants=written)
    assert found.tenants is not None
    rows = {each["tenant"]: each for each in found.to_dict()["tenants"]["tenants"]}
    assert rows["tenant-1"]["jobs"] + rows["tenant-2"]["jobs"] == 40 and rows["default"]["mean_jct_seconds"] is None
    assert rows["tenant-1"]["welfare"] > 0.9 and rows["tenant-1"]["start_seconds_p99"] is not None
    assert "best tenant over worst, by welfare" in str(found)
    gpu_hours = sum(rows[name]["gpu_hours"] for name in ("tenant-1", "tenant-2"))
    held = sum(found.record.occupied_gpu_seconds) / 3600.0
    assert 0.9 * held < gpu_hours <= held, "launches are not counted"

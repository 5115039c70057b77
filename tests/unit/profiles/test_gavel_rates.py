"""Gavel's JSON: what is read, and what is refused."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError, ProfileError
from rota.profiles.catalogue import Catalogue
from rota.profiles.describe import describe_file
from rota.profiles.gavel_rates import read_rates
from rota.profiles.measured_rates import read_measured
from rota.profiles.simulation_rates import read_rates as read_any
from tests.examples import examples

LM, A3C = "('LM (batch size 5)', 1)", "('A3C', 1)"
LM2 = "('LM (batch size 5)', 2)"
SMALL = {
    "v100": {
        LM: {"null": 109.0, A3C: [60.5, 4], LM: [50, 51.5]},
        A3C: {"null": 7, LM: [4.0, 60.5]},
        LM2: {"null": 185.0, LM2: [90.0, 91.0]},
    },
    "v100_unconsolidated": {LM: {"null": 109.0}, LM2: {"null": 40.0, LM2: [20.0, 21.0]}},
    "k80": {LM: {"null": 0}},
}


def write(folder: Path, value: Any) -> Path:
    path = folder / "rates.json"
    path.write_bytes(value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode())
    return path


def test_alone_apart_and_in_pairs(tmp_path: Path) -> None:
    rates = read_rates(write(tmp_path, SMALL))
    lm, a3c = "LM (batch size 5)", "A3C"
    assert rates.table == {(lm, "V100", 1): 109.0, (a3c, "V100", 1): 7.0, (lm, "V100", 2): 185.0, (lm, "K80", 1): 0.0}
    assert rates.across_nodes == {(lm, "V100", 2): 40.0}, "one GPU spans no nodes"
    assert rates.colocated_rates(lm, a3c, "V100", 1) == (60.5, 4.0)
    assert rates.colocated_rates(a3c, lm, "V100", 1) == (4.0, 60.5)
    assert rates.colocated_rates(lm, lm, "V100", 2) == (90.5, 90.5), "pairs in one node; two of a kind cannot be told apart"
    assert rates.rate(lm, "K80", 1) == (0.0, 0.0)
    assert rates.rate(lm, "V100", 2, 2) == (40.0, 0.0)


def test_a_file_says_itself_what_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff\n " + json.dumps(SMALL))
    assert read_measured(path) == read_rates(path)
    rates = read_any(path)
    assert rates.rate("A3C", "V100", 1) == (7.0, 0.0)
    assert rates.rate("resnet50", "V100", 1) == Catalogue().rate("resnet50", "V100", 1), "the catalogue knows the rest"
    table = tmp_path / "rates.csv"
    table.write_text("profile,accelerator,steps_per_second\nmine,T4,2\n")
    assert read_measured(table).table == {("mine", "T4", 1): 2.0}


def test_what_a_file_holds(tmp_path: Path) -> None:
    held = describe_file(write(tmp_path, SMALL))
    assert held.profiles == ("A3C", "LM (batch size 5)") and held.accelerators == ("K80", "V100") and held.gpus == (1, 2)
    assert (held.alone, held.across_nodes, held.pairs, held.never, held.unknown) == (4, 1, 3, 1, ())


@dataclass(frozen=True)
class Case:
    name: str
    value: Any
    problem: str
    field: str = ""
    shown: object = None
    line: int | None = None


def at(value: Any, key: str = LM, kind: str = "v100") -> dict[str, Any]:
    return {kind: {key: value}}


def raw(number: str) -> str:
    """A rate as it stands in the file, where Python would write it otherwise."""
    return json.dumps(at({"null": "?"})).replace('"?"', number)


CASES = [
    Case("empty", "", "is not JSON", "column", 1, 1),
    Case("cut off", '{"v100": {\n', "is not JSON", "column", 1, 2),
    Case("a comma too many", '{"v100": {},}', "is not JSON", "column", line=1),
    Case("single quotes", "{'v100': {}}", "is not JSON", "column", 2, 1),
    Case("NaN", raw("NaN"), "not a number of JSON", "value", "NaN"),
    Case("Infinity", raw("-Infinity"), "not a number of JSON", "value", "-Infinity"),
    Case("too large for a float", raw("1e999"), "more than", f"v100 > {LM} > null", "Infinity"),
    Case("beyond all sense", at({"null": 1e16}), "more than", f"v100 > {LM} > null", "1e+16"),
    Case("endless digits", '{"v100": ' + "9" * 5000 + "}", "too many digits"),
    Case("too deep", "[" * 100_000, "nested too deeply"),
    Case("twice the same type", '{"v100": {}, "v100": {}}', "twice", "key", "v100"),
    Case("a list", [1, 2], "must be an object", "the file", "[1, 2]"),
    Case("nothing in it", {}, "no rates"),
    Case("a type without jobs", {"v100": {}}, "no rates"),
    Case("a strange type", {"v 100": {}}, "not an accelerator type", "the file", "v 100"),
    Case("jobs in a list", {"v100": [LM]}, "must be an object", "v100"),
    Case("a job without GPUs", at({"null": 1}, "('LM')"), "is not a job", "v100", "('LM')"),
    Case("a job of no GPUs", at({"null": 1}, "('LM', 0)"), "is not a job", "v100", "('LM', 0)"),
    Case("a job of half a GPU", at({"null": 1}, "('LM', 0.5)"), "is not a job", "v100", "('LM', 0.5)"),
    Case("a job of too many", at({"null": 1}, "('LM', 9999999)"), "is not a job", "v100", "('LM', 9999999)"),
    Case("a job that is code", at({"null": 1}, "__import__('os')"), "is not a job", "v100", "__import__('os')"),
    Case("a bare name", at({"null": 1}, "LM"), "is not a job", "v100", "LM"),
    Case("a rate for a row", at(109.0), "must be an object", f"v100 > {LM}", "109.0"),
    Case("no rate alone", at({LM: [1, 2]}), "has no 'null'", f"v100 > {LM}"),
    Case("negative", at({"null": -0.5}), "is negative", f"v100 > {LM} > null", "-0.5"),
    Case("in words", at({"null": "fast"}), "not a number", f"v100 > {LM} > null", "fast"),
    Case("true", at({"null": True}), "not a number", f"v100 > {LM} > null", "true"),
    Case("null", at({"null": None}), "not a number", f"v100 > {LM} > null"),
    Case("nested nonsense", at({"null": {"null": 1}}), "not a number", f"v100 > {LM} > null", '{"null": 1}'),
    Case("one rate for a pair", at({"null": 1, LM: 2}), "list of two", f"v100 > {LM} > {LM}", "2"),
    Case("three rates for a pair", at({"null": 1, LM: [1, 2, 3]}), "list of two", f"v100 > {LM} > {LM}", "[1, 2, 3]"),
    Case("a negative pair", at({"null": 1, LM: [1, -2]}), "is negative", f"v100 > {LM} > {LM}", "-2"),
    Case("a pair with nobody", at({"null": 1, "other": [1, 2]}), "is not a job", f"v100 > {LM}", "other"),
    Case("an unequal pair", at({"null": 1, LM2: [1, 2]}), "another number of GPUs", f"v100 > {LM}", LM2),
    Case(
        "0 apart",
        {"v100": {LM2: {"null": 1}}, "v100_unconsolidated": {LM2: {"null": 0}}},
        "more than 0",
        f"v100_unconsolidated > {LM2} > null",
        "0.0",
    ),
    Case("not UTF-8", b'{"\xff": 1}', "not UTF-8", "byte", "0xff", 1),
    Case("a NUL", '{"v100\0": 1}', "NUL", "byte", "0x00", 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed(tmp_path: Path, case: Case) -> None:
    path = write(tmp_path, case.value)
    with pytest.raises(ProfileError) as caught:
        read_rates(path)
    error = caught.value
    assert case.problem in error.message
    assert (error.where, error.line, error.field) == (str(path), case.line, case.field)
    assert error.message.startswith(str(path)) and len(error.message) < 600
    if case.shown is not None:
        assert error.value == case.shown
    assert error.hint
    assert error.__suppress_context__ or error.__context__ is None, "no second traceback behind the first"


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        read_rates(write(tmp_path, at({"null": "x" * 10_000})))
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(("name", "problem"), [("nowhere.json", "no such file"), (".", "is a folder|in this folder")])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, problem: str) -> None:
    for reader in (read_rates, read_any):
        with pytest.raises(ProfileError, match=problem):
            reader(tmp_path / name)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["v100", "v100_unconsolidated", "null", LM, LM2, "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@examples(300, uses_fixtures=True)
@given(st.binary(max_size=60) | TREES.map(lambda tree: json.dumps(tree).encode()))
@pytest.mark.slow
def test_anything_is_a_table_or_an_input_error(tmp_path: Path, data: bytes) -> None:
    try:
        rates = read_rates(write(tmp_path, data))
    except InputError as error:
        assert error.hint
    else:
        assert rates.table
        assert all(rate > 0 for rate in rates.across_nodes.values())

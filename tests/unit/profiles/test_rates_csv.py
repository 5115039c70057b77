"""Rota's own table of rates: what is read, and what is refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import UNPROFILED_UNCERTAINTY, Rates
from rota.errors import InputError, ProfileError
from rota.profiles.rates_csv import read_rates
from tests.examples import examples

HEADER = "profile,accelerator,gpus,steps_per_second"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "rates.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_rates_as_measured(tmp_path: Path) -> None:
    text = f'{HEADER}\nresnet,v100,1,5.5\nresnet, V100 ,4,20\n\nresnet,K80,1,0\n"a, b",A100,,1e3\n'
    rates = read_rates(write(tmp_path, text))
    assert rates.table == {
        ("resnet", "V100", 1): 5.5,
        ("resnet", "V100", 4): 20.0,
        ("resnet", "K80", 1): 0.0,
        ("a, b", "A100", 1): 1000.0,
    }
    assert rates.rate("resnet", "V100", 4) == (20.0, 0.0)
    assert rates.rate("resnet", "K80", 1) == (0.0, 0.0), "known not to run"
    assert rates.rate("resnet", "V100", 8) == (40.0, UNPROFILED_UNCERTAINTY)
    assert rates.rate("other", "V100", 1) == Rates().rate("other", "V100", 1), "nobody profiled it"


@pytest.mark.parametrize(
    "text",
    [
        "steps_per_second,profile,accelerator\n2,p,T4\n",
        "\ufeffprofile,accelerator,gpus,steps_per_second\r\np,t4,1.0,2\r\n",
        "\nprofile , accelerator, steps_per_second\rp,T4,2.0",
    ],
    ids=["order", "bom and crlf", "blanks and cr"],
)
def test_ways_to_write_the_same(tmp_path: Path, text: str) -> None:
    assert read_rates(str(write(tmp_path, text))).table == {("p", "T4", 1): 2.0}


def test_apart_and_in_pairs(tmp_path: Path) -> None:
    text = (
        "profile,accelerator,gpus,nodes,colocated_with,steps_per_second\n"
        "a,V100,4,1,,20\na,V100,4,2,,15\na,V100,,,b,3\nb,V100,1,1,a,30\nb,V100,1,,b,0\nc,V100,8,4,,7\n"
    )
    rates = read_rates(write(tmp_path, text))
    assert rates.table == {("a", "V100", 4): 20.0}
    assert rates.across_nodes == {("a", "V100", 4): 15.0, ("c", "V100", 8): 7.0}
    assert rates.rate("a", "V100", 4, 2) == (15.0, 0.0)
    assert rates.colocated_rates("a", "b", "V100", 1) == (3.0, 30.0)
    assert rates.colocated_rates("b", "a", "V100", 1) == (30.0, 3.0)
    assert rates.colocated_rates("b", "b", "V100", 1) == (0.0, 0.0)


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes
    problem: str
    line: int | None = None
    field: str = ""
    value: object = None


def row(cells: str) -> str:
    """A file whose third line is the one in question."""
    return f"{HEADER}\np,V100,1,2\n{cells}\n"


def wide(cells: str) -> str:
    """The same with all columns."""
    return f"profile,accelerator,gpus,nodes,colocated_with,steps_per_second\np,V100,4,2,,2\n{cells}\n"


LONG = "9" * 10_001
SHOWN = "9" * 60 + "…"

CASES = [
    Case("empty", "", "is empty"),
    Case("blank lines only", "\n \n", "is empty"),
    Case("header only", HEADER + "\n", "no rates"),
    Case("not UTF-8", b"profile\n\xff\n", "not UTF-8", 2, "byte", "0xff"),
    Case("NUL", f"{HEADER}\np,V100,1,\0\n", "NUL", 2, "byte", "0x00"),
    Case("quote never closed", row('"p,V100,1,2'), "cannot be split into cells", 3, "line", '"p,V100,1,2'),
    Case("missing column", "profile,accelerator\np,V100\n", "needs this column", 1, "steps_per_second"),
    Case("unknown column", "profile,accelerator,gpu,steps_per_second\n", "Closest: gpus.", 1, "column", "gpu"),
    Case("unknown column, nothing near", f"{HEADER},zzz\n", "All: profile", 1, "column", "zzz"),
    Case("duplicate column", f"{HEADER},gpus\n", "twice", 1, "column", "gpus"),
    Case("JSON", '{"V100": {}}\n', "no such column", 1, "column", '{"V100": {}}'),
    Case("too few cells", row("p,V100,1"), "the header has 4 columns", 3, "cells", 3),
    Case("too many cells", row("p,V100,1,2,3"), "the header has 4 columns", 3, "cells", 5),
    Case("long cell", row(f"{LONG},V100,1,2"), "10,001 characters long", 3, "profile", SHOWN),
    Case("no profile", row(" ,V100,1,2"), "is empty", 3, "profile", ""),
    Case("no accelerator", row("p,,1,2"), "not an accelerator type", 3, "accelerator", ""),
    Case("two accelerators", row("p,V100|A100,1,2"), "not an accelerator type", 3, "accelerator", "V100|A100"),
    Case("no GPUs", row("p,V100,0,2"), "at least 1", 3, "gpus", "0"),
    Case("negative GPUs", row("p,V100,-1,2"), "negative", 3, "gpus", "-1"),
    Case("half a GPU", row("p,V100,0.5,2"), "not a whole number", 3, "gpus", "0.5"),
    Case("too many GPUs", row("p,V100,1000001,2"), "more than 1,000,000", 3, "gpus", "1000001"),
    Case("GPUs in words", row("p,V100,two,2"), "not a finite number", 3, "gpus", "two"),
    Case("negative rate", row("p,V100,2,-0.1"), "negative", 3, "steps_per_second", "-0.1"),
    Case("rate in words", row("p,V100,2,fast"), "not a finite number", 3, "steps_per_second", "fast"),
    Case("empty rate", row("p,V100,2,"), "is empty", 3, "steps_per_second", ""),
    Case("underscore", row("p,V100,2,1_0"), "not a finite number", 3, "steps_per_second", "1_0"),
    Case("digits of another script", row("p,V100,2,٣"), "not a finite number", 3, "steps_per_second", "٣"),
    Case("nan", row("p,V100,2,nan"), "not a finite number", 3, "steps_per_second", "nan"),
    Case("inf", row("p,V100,2,inf"), "not a finite number", 3, "steps_per_second", "inf"),
    Case("beyond all sense", row("p,V100,2,1e16"), "more than", 3, "steps_per_second", "1e16"),
    Case("no nodes", wide("p,V100,4,0,,2"), "at least 1", 3, "nodes", "0"),
    Case("half a node", wide("p,V100,4,1.5,,2"), "not a whole number", 3, "nodes", "1.5"),
    Case("more nodes than GPUs", wide("p,V100,4,5,,2"), "more than the number of GPUs, 4", 3, "nodes", "5"),
    Case("one GPU on two nodes", wide("p,V100,,2,,2"), "more than the number of GPUs, 1", 3, "nodes", "2"),
    Case("a pair apart", wide("p,V100,4,2,q,2"), "one node only", 3, "nodes", "2"),
    Case("never apart", wide("q,V100,4,2,,0"), "more than 0", 3, "steps_per_second", "0"),
    Case("half a pair", wide("p,V100,4,1,q,2"), "the line for q next to p is missing", 3, "colocated_with", "q"),
    Case("duplicate apart", wide("p,V100,4,3,,1"), "over several nodes is already given on line 2", 3, "profile", "p"),
    Case("duplicate row", row("p,v100,,3"), "already given on line 2", 3, "profile", "p"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed(tmp_path: Path, case: Case) -> None:
    path = write(tmp_path, case.text)
    with pytest.raises(ProfileError) as caught:
        read_rates(path)
    error = caught.value
    assert case.problem in error.message
    assert (error.where, error.line, error.field) == (str(path), case.line, case.field)
    assert error.message.startswith(str(path) if case.line is None else f"{path}:{case.line}")
    if case.value is not None:
        assert error.value == case.value
        assert f"{case.field}: {case.value!r}" in error.message
    assert error.hint
    assert error.__suppress_context__ or error.__context__ is None, "no second traceback behind the first"


@pytest.mark.parametrize(
    ("name", "problem"), [("nowhere.csv", "no such file"), (".", "is a folder"), ("x" * 5000, "cannot be read")]
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ProfileError, match=problem) as caught:
        read_rates(tmp_path / name)
    assert caught.value.where == str(tmp_path / name)
    assert caught.value.hint


@examples(300, uses_fixtures=True)
@given(
    st.binary()
    | st.lists(st.text(alphabet='0123456789,."-|e\r\n\0_ pV\ufeff')).map(lambda rows: "\n".join([HEADER, *rows]).encode())
)
def test_anything_is_a_table_or_an_input_error(tmp_path: Path, data: bytes) -> None:
    try:
        rates = read_rates(write(tmp_path, data))
    except InputError as error:
        assert error.hint
    else:
        assert rates.table

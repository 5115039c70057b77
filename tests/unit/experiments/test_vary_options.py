"""What a sweep varies, and when it computes a cell again."""

from pathlib import Path

import pytest

import rota
from rota.beliefs.rates import Rates
from rota.compose.option_syntax import options_of
from rota.compose.registry import PLACER_REGISTRY
from rota.errors import InputError, OptionError
from rota.experiments.grid import Grid
from rota.experiments.runner import run as sweep
from rota.experiments.vary_options import read_varied

JOBS = "synthetic:jobs=20,gpus=4,largest=2,longest_seconds=5000"


def grid(**changes: object) -> Grid:
    values: dict[str, object] = {"policies": ("fifo",), "traces": (JOBS,), "clusters": ("4xV100",)}
    return Grid(**{**values, **changes})  # type: ignore[arg-type]


def test_values_as_they_are_typed() -> None:
    found = read_varied(["round_seconds=60/360", "policy.thresholds=3250/7200|1000", "preset=ideal/gavel", "window=0:5/5:9"])
    assert found == {
        "round_seconds": (60, 360),
        "policy.thresholds": ("3250/7200", 1000),
        "preset": ("ideal", "gavel"),
        "window": ("0:5", "5:9"),
    }
    assert read_varied(["wait_for_locality=true/false"]) == {"wait_for_locality": ("true", "false")}
    assert read_varied(["trace.load=0.5/0.70/1"]) == {"trace.load": (0.5, 0.7, 1)}


@pytest.mark.parametrize(
    "text,words",
    [
        ("first=1.5/2", "not a whole number"),
        ("wait_for_locality=maybe", "not true or false"),
        ("rates=1/2", "set from Python"),
        ("preset=ideal//gavel", "a value is missing"),
        ("cluster=4xV100|8xV100", "is an axis and has its own flag"),
        ("seed=1/2", "is an axis and has its own flag"),
        ("policy.=1/2", "No setting 'policy.'"),
        ("rond_seconds=1/2", "Closest: round_seconds"),
    ],
)
def test_what_cannot_be_varied(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_varied([text])


def test_options_of_policies_and_placers() -> None:
    made = grid(
        policies=("tiresias:promote=8", "las+spread"),
        placers=("packed",),
        vary={"policy.service": ("seconds",), "placer.sticky": (True, False)},
    )
    assert [(cell.study.policy, cell.study.placer) for cell in made.cells()] == [
        ("tiresias:promote=8,service=seconds", "packed:sticky=true"),
        ("tiresias:promote=8,service=seconds", "packed:sticky=false"),
        ("las:service=seconds+spread:sticky=true", None),
        ("las:service=seconds+spread:sticky=false", None),
    ]
    (first, *_) = made.cells()
    assert first.axes == {
        "policy": "tiresias:promote=8",
        "trace": JOBS,
        "cluster": "4xV100",
        "placer": "packed",
        "policy.service": "seconds",
        "placer.sticky": True,
    }
    lists = grid(policies=("tiresias", "./mine.py"), vary={"policy.thresholds": ((3250, 7200.5),)})
    assert [cell.study.policy for cell in lists.cells()] == [
        "tiresias:thresholds=3250/7200.5",
        "./mine.py::thresholds=3250/7200.5",
    ]


@pytest.mark.slow
def test_an_option_is_varied_for_those_that_have_it(tmp_path: Path) -> None:
    """What a user did: several policies, and an option that only one of them has."""
    made = grid(policies=("fifo", "tiresias"), vary={"policy.promote": (0, 8)})
    assert [(cell.study.policy, cell.axes["policy.promote"]) for cell in made.cells()] == [
        ("fifo", None),
        ("tiresias:promote=0", 0),
        ("tiresias:promote=8", 8),
    ]
    found = sweep(made, tmp_path, workers=1)
    heads, rows = found.cells()
    assert [row[:2] for row in rows] == [["fifo", "-"], ["tiresias", "0"], ["tiresias", "8"]] and len(heads) > 2


def test_an_option_of_placers_is_varied_for_those_that_have_it() -> None:
    made = grid(policies=("fifo", "fifo+random"), placers=("packed",), vary={"placer.sticky": (True, False)})
    random = {cell.axes["placer.sticky"] for cell in made.cells() if cell.axes["placer"] == "random"}
    assert random == ({True, False} if "sticky" in options_of(PLACER_REGISTRY.find("random")) else {None})
    assert {cell.axes["placer.sticky"] for cell in made.cells() if cell.axes["placer"] == "packed"} == {True, False}


def test_an_option_that_nobody_has_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No option of fifo 'promote'"):
        sweep(grid(policies=("fifo", "srsf"), vary={"policy.promote": (0, 8)}), tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists(), "it is told before anything runs"


def test_any_field() -> None:
    made = grid(
        vary={"window": ("0:5", (5, 9)), "decide": ("events", "both"), "round_seconds": (60,), "wait_for_locality": ("true",)}
    )
    first, *_ = cells = made.cells()
    assert [(cell.study.window, cell.study.decide) for cell in cells] == [
        ((0, 5), "events"),
        ((0, 5), "both"),
        ((5, 9), "events"),
        ((5, 9), "both"),
    ]
    assert first.study.wait_for_locality is True and first.axes["window"] == "0:5"


def test_an_object_cannot_be_swept(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is an object"):
        rota.sweep(["fifo"], out=tmp_path, trace=JOBS, cluster="4xV100", rates=Rates())


def write_scores(path: Path, slow: float) -> None:
    path.write_text("gpu,class,score\n" + "".join(f"{gpu},A,{slow if gpu == 0 else 1.0}\n" for gpu in range(4)))


@pytest.mark.slow
def test_a_cell_is_computed_again_when_the_scores_changed(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    write_scores(path, 1.5)
    made = grid(options={"variability": str(path)})
    first = sweep(made, tmp_path / "out", workers=1)
    again = sweep(made, tmp_path / "out", workers=1)
    assert (first.reused, again.reused) == (0, 1) and again.rows == first.rows, "nothing changed"
    write_scores(path, 3.0)
    changed = sweep(made, tmp_path / "out", workers=1)
    assert changed.reused == 0
    assert changed.rows[0]["summary"]["mean_jct_seconds"] > first.rows[0]["summary"]["mean_jct_seconds"]
    write_scores(path, 1.5)
    assert sweep(made, tmp_path / "out", workers=1).reused == 1, "the first scores are known already"


@pytest.mark.slow
def test_a_sweep_over_options_of_a_policy(tmp_path: Path) -> None:
    found = rota.sweep(
        ["tiresias"], out=tmp_path, trace=JOBS, cluster="2xV100", vary={"policy.thresholds": ["100/900", 5000]}, workers=1
    )
    assert [row["params"]["policy"] for row in found.rows] == ["tiresias:thresholds=100/900", "tiresias:thresholds=5000"]
    assert "POLICY.THRESHOLDS" in str(found) and not found.failed

"""Scores of GPUs from files: what is read, and what is refused."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError, OptionError, ProfileError
from rota.model.cluster import Cluster
from rota.profiles.variability_files import describe_variability, read_variability
from tests.examples import examples

RESNET = "uuid,perf\ng0,10\ng0,11\ng0,9\ng1,20\ng1,22\ng1,40\ng2,10\n"
BERT = "cabinet,node,device,uuid,perf\nc1,004,0,x,1.0\nc1,004,0,x,1.1\nc1,5,1,y,2.0\n"


def folder(path: Path, classes: str = '{"classA": "old/place/resnet.csv",\n "classB": "bert.csv"}', **files: str) -> Path:
    (path / "profiles.json").write_text(classes)
    for name, text in ({"resnet": RESNET, "bert": BERT} | files).items():
        (path / f"{name}.csv").write_text(text)
    return path


def write(path: Path, text: str) -> Path:
    (path / "scores.csv").write_text(text)
    return path / "scores.csv"


def test_a_run_for_every_gpu(tmp_path: Path) -> None:
    cluster = Cluster.parse("2x(4xV100)")
    found = read_variability(folder(tmp_path), cluster, seed=3)
    draw = random.Random(3)
    columns = [np.array([10, 11, 9, 20, 22, 40, 10]) / 11, np.array([1.0, 1.1, 2.0]) / 1.1]
    assert found.scores.T.tolist() == [[draw.choice(column.tolist()) for column in columns] for _ in range(8)]
    assert found.classes == ("A", "B") and not found.uncertainty.any()
    assert found.class_of == {"resnet50": "A", "bert": "B", "dcgan": "B", "gpt2": "B"}, "classes that are not there are left out"
    assert read_variability(tmp_path / "profiles.json", cluster, 3).scores.tolist() == found.scores.tolist()
    assert read_variability(tmp_path, cluster, 4).scores.tolist() != found.scores.tolist()


def test_the_median_of_every_gpu(tmp_path: Path) -> None:
    path = folder(tmp_path, resnet=RESNET.replace("g0", "c1-4-0"))
    (tmp_path / "resnet.csv").write_text("cabinet,node,device,uuid,perf\nc1,4,0,a,10\nc1,4,0,a,12\nc1,5,1,b,22\nc9,9,0,c,33\n")
    seen = set()
    for seed in range(6):
        found = read_variability(path, None, seed, sampled=False)
        assert sorted(found.scores[0].round(3)) == [0.647, 1.294, 1.941], "every real GPU once"
        pairs = {(a, b) for a, b in found.scores.round(3).T.tolist()}
        assert (0.647, 0.955) in pairs and (1.294, 1.818) in pairs, "one place, one GPU, in every file"
        seen |= pairs
        assert (found.uncertainty > 0).all()
    assert {(1.941, 0.955), (1.941, 1.818)} <= seen, "a GPU that a file does not know has a stand-in"
    many = read_variability(path, Cluster.parse("7xV100"), 0, sampled=False)
    counts = np.unique(many.scores[0].round(3), return_counts=True)[1]
    assert many.gpus == 7 and sorted(counts) == [2, 2, 3]


def test_the_spread_of_a_median(tmp_path: Path) -> None:
    text = "uuid,perf\n" + "".join(f"g{gpu},{10 + gpu + run / 10}\n" for gpu in range(4) for run in range(9)) + "g9,10\n"
    (tmp_path / "runs.csv").write_text(text)
    found = read_variability(tmp_path / "runs.csv", sampled=False)
    single = found.scores[0].argmin()
    assert found.uncertainty[0].argmax() == single and 0.005 < found.uncertainty[0].min() < 0.02
    (tmp_path / "once.csv").write_text("uuid,perf\na,1\nb,2\n")
    assert not read_variability(tmp_path / "once.csv", sampled=False).uncertainty.any(), "nothing to go by"


def test_our_table(tmp_path: Path) -> None:
    path = write(tmp_path, "gpu,class,score,spread\n2,A,1.5,0.1\n0,B,0.9,\n\n")
    found = read_variability(path)
    assert found.classes == ("A", "B")
    assert found.scores.tolist() == [[1.0, 1.0, 1.5], [0.9, 1.0, 1.0]]
    assert found.uncertainty.tolist() == [[0, 0, 0.1], [0, 0, 0]]
    assert read_variability(path, Cluster.parse("5xV100")).gpus == 5
    mine = read_variability(path, class_of={"mine": "B"})
    assert mine.row("Mine (batch size 2)") == 1 and mine.row("resnet50") == 0
    with pytest.raises(OptionError, match="class_of"):
        read_variability(path, class_of={"mine": "Z"})


def test_pals_tables(tmp_path: Path) -> None:
    text = "gpu_id,node_id,pm_classA,pm_classB,bin_classA\n1,0,1.2,1,x\n0,0,0.9,2,x\n"
    found = read_variability(write(tmp_path, text), Cluster.parse("2xV100"))
    assert found.classes == ("A", "B") and found.scores.tolist() == [[0.9, 1.2], [2.0, 1.0]]
    text = ",GPU_ID,GPU_UUID,Node_ID,PerfVar_classA\n0,0,u,0,1.1\n"
    assert read_variability(write(tmp_path, text)).scores.tolist() == [[1.1]]


BROKEN = {
    "empty": ("", (None, "")),
    "other columns": ("a,b\n1,2\n", (1, "header")),
    "only a header": ("gpu,class,score\n", (None, "")),
    "no class": ("gpu,score\n0,1\n", (1, "class")),
    "unknown column": ("gpu,class,score,sprad\n0,A,1,1\n", (1, "column")),
    "empty class": ("gpu,class,score\n0,,1\n", (2, "class")),
    "twice": ("gpu,class,score\n0,A,1\n0,A,2\n", (3, "gpu")),
    "score of 0": ("gpu,class,score\n0,A,0\n", (2, "score")),
    "score is text": ("gpu,class,score\n0,A,slow\n", (2, "score")),
    "score is huge": ("gpu,class,score\n0,A,1e9\n", (2, "score")),
    "negative spread": ("gpu,class,score,spread\n0,A,1,-1\n", (2, "spread")),
    "gpu is a fraction": ("gpu,class,score\n0.5,A,1\n", (2, "gpu")),
    "gpu beyond the cluster": ("gpu,class,score\n4,A,1\n", (2, "gpu")),
    "pal: a gpu is missing": ("gpu_id,pm_classA\n0,1\n1,1\n2,1\n", (None, "gpu_id")),
    "pal: twice": ("gpu_id,pm_classA\n0,1\n0,1\n", (3, "gpu_id")),
    "pal: no class": ("gpu_id,node_id\n0,1\n", (1, "pm_classA")),
    "pal: other column": ("gpu_id,pm_classA,name\n0,1,x\n", (1, "column")),
    "pal: bad score": ("gpu_id,pm_classA\n0,\n", (2, "pm_classA")),
    "runs: no time": ("uuid,perf\na,0\n", (2, "perf")),
    "runs: text": ("uuid,perf\na,fast\n", (2, "perf")),
    "runs: none": ("uuid,perf\n", (None, "")),
    "runs: no gpu": ("uuid,perf\n,1\n", (2, "uuid")),
    "runs: units": ("uuid,perf\na,1\nb,1\nc,1e9\n", (4, "perf")),
    "runs: which gpu": ("perf\n1\n", (None, "uuid")),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    text, (line, field) = BROKEN[case]
    path = write(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        read_variability(path, Cluster.parse("1x(4xV100)"), sampled=False)
    assert (caught.value.line, caught.value.field, caught.value.where) == (line, field, str(path))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("classes", "line", "field"),
    [
        ('{"classA": "resnet.csv",\n"classB": "nowhere.csv"}', 2, "classB"),
        ('{"classA": 1.5}', 1, "classA"),
        ('{"classA": "resnet.csv", "A": "bert.csv"}', 1, "A"),
        ('{"class": "resnet.csv"}', 1, "class"),
        ('{"classA": ["resnet.csv"]}', 1, "classA"),
        ('["resnet.csv"]', 1, ""),
        ("{}", None, ""),
        ('{"classA": "resnet.csv"', None, ""),
    ],
)
def test_a_map_of_classes_that_is_refused(tmp_path: Path, classes: str, line: int | None, field: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_variability(folder(tmp_path, classes))
    assert caught.value.where == str(tmp_path / "profiles.json") and caught.value.hint
    assert caught.value.field == field and (line is None or caught.value.line == line)


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"no profiles\.json"):
        read_variability(tmp_path)
    with pytest.raises(ProfileError, match="no such file"):
        read_variability(tmp_path / "nowhere.csv")
    with pytest.raises(ProfileError, match="needs this column"):
        read_variability(folder(tmp_path, bert="uuid,time\na,1\n"))
    with pytest.raises(OptionError, match="--seed"):
        read_variability(tmp_path, seed=-1)


def test_summed_up(tmp_path: Path) -> None:
    found = describe_variability(write(tmp_path, "gpu,class,score,spread\n0,A,0.9,0.1\n1,A,1.0,\n2,A,3,\n"))
    (line,) = found.classes
    assert (found.gpus, found.sampled, found.seed) == (3, None, None)
    assert (line.name, line.gpus, line.least, line.median, line.most, line.spread) == ("A", 3, 0.9, 1.0, 3.0, 0.1)
    assert [count for _, count in line.bins] == [2, 1] and line.outliers == ((2, 3.0),)
    found = describe_variability(folder(tmp_path), sampled=False)
    assert (found.gpus, found.sampled, found.seed, len(found.classes)) == (3, False, 0, 2)


cells = st.text(st.sampled_from('0123456789.-,e"\nAgpu class score perf uuid_'), max_size=80)


@examples(150, uses_fixtures=True)
@given(st.sampled_from(["gpu,class,score\n", "uuid,perf\n", "gpu_id,pm_classA\n", "{", ""]), cells, st.booleans())
def test_no_text_does_worse_than_an_error(tmp_path: Path, header: str, text: str, sampled: bool) -> None:
    path = write(tmp_path, header + text)
    try:
        found = read_variability(path, Cluster.parse("8xV100"), sampled=sampled)
    except InputError as problem:
        assert problem.hint and str(path.parent) in str(problem)
    else:
        assert found.gpus == 8 and (found.scores > 0).all()
        assert np.array_equal(found.scores, read_variability(path, Cluster.parse("8xV100"), sampled=sampled).scores)

"""The error of the catalogue: what counts, how it is summed up, and which folders are accepted."""

from pathlib import Path

import pytest

from rota.errors import ProfileError
from rota.profiles.catalogue import Catalogue
from rota.profiles.error import EVERY, ModelErrorLine, compare
from rota.profiles.published import INFINIBAND, ONE_STREAM, Measurement, read_measurements


def modelled(profile: str, accelerator: str, gpus: int = 1, levels: int = 0, catalogue: Catalogue | None = None) -> float:
    found = (catalogue or Catalogue()).rate(profile, accelerator, gpus, levels)
    assert found is not None
    return found[0]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_factors_are_those_of_the_table(tmp_path: Path) -> None:
    one = modelled("resnet50", "V100")
    rows = "".join(f"resnet50,V100,{gpus},{one * factor}\n" for gpus, factor in ((1, 2.0), (2, 2.0), (4, 0.25)))
    path = write(
        tmp_path / "mine.csv",
        f"profile,accelerator,gpus,steps_per_second\n{rows}nobody,V100,1,3\nbert/bs4096,V100,1,1\nbert,V100,1,0\n",
    )
    report = compare([path])
    assert report.unknown == 1
    by_model = {line.model: line for line in report.lines if line.source == "mine"}
    assert by_model["resnet50"] == ModelErrorLine(
        "mine", "resnet50", "V100", 3, *map(pytest.approx, (2.0, 2.0)), pytest.approx(3.4822), 0
    )
    assert by_model["bert"] == ModelErrorLine("mine", "bert", "V100", 0, None, None, None, 1), (
        "ran, though the model says it does not fit"
    )
    assert [(line.source, line.model) for line in report.lines[-2:]] == [("mine", EVERY), (EVERY, EVERY)]
    assert (report.lines[-1].cells, report.lines[-1].refused) == (3, 1)


def test_a_type_under_another_name(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", f"profile,accelerator,steps_per_second\nlm,V100,{modelled('lm', 'T4')}\n")
    assert compare([path], {"V100": "T4"}).lines[0].ratio == pytest.approx(1.0)
    assert compare([path]).lines[0].accelerator == "V100"


def test_apart_is_a_source_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", "profile,accelerator,gpus,nodes,steps_per_second\nvgg19,V100,4,1,1\nvgg19,V100,4,2,1\n")
    found = list(read_measurements(path))
    assert [(each.source, each.nodes) for each in found] == [("mine", 1), ("mine apart", 2)]


def test_elasticflows_folders(tmp_path: Path) -> None:
    write(tmp_path / "throughputs_A100" / "bert.csv", "global_batch_size,1,16\n64,6.0,\n128,nan,0\n256,0.5,4.5\n")
    write(tmp_path / "throughputs_T4" / "bert.csv", "global_batch_size,8\n384,0.2\n")
    found = list(read_measurements(tmp_path))
    assert found == [
        Measurement("elasticflow", "elasticflow/bert/global64", "A100", 1, 1, 6.0, INFINIBAND),
        Measurement("elasticflow", "elasticflow/bert/global256", "A100", 1, 1, 0.5, INFINIBAND),
        Measurement("elasticflow", "elasticflow/bert/global256", "A100", 16, 2, 4.5, INFINIBAND),
        Measurement("elasticflow", "bert/global384", "T4", 8, 2, 0.2, ONE_STREAM),
    ]
    assert list(read_measurements(tmp_path / "throughputs_T4")) == found[3:]
    assert {line.model for line in compare([tmp_path]).lines} == {"bert", "bert-cola", EVERY}


def test_polluxs_folders(tmp_path: Path) -> None:
    write(tmp_path / "cifar10" / "placements.csv", "placement,local_bsz,step_time,sync_time\n1,32,0.05,0\n344,64,0.25,0.1\n")
    assert list(read_measurements(tmp_path)) == [
        Measurement("pollux", "cifar10/bs32", "T4", 1, 1, 20.0, ONE_STREAM),
        Measurement("pollux", "cifar10/bs64", "T4", 11, 3, 4.0, ONE_STREAM),
    ]


@pytest.mark.parametrize(
    ("path", "text", "problem", "field"),
    [
        ("cifar10/placements.csv", "placement,step_time\n1,2\n", "needs this column", "local_bsz"),
        ("cifar10/placements.csv", "placement,local_bsz,step_time\n1-1,2,3\n", "not one digit", "placement"),
        ("cifar10/placements.csv", "placement,local_bsz,step_time\n10,2,3\n", "not one digit", "placement"),
        ("cifar10/placements.csv", "placement,local_bsz,step_time\n1,2,0\n", "more than 0", "step_time"),
        ("cifar10/placements.csv", "placement,local_bsz,step_time\n1,0,2\n", "at least 1", "local_bsz"),
        ("throughputs_T4/bert.csv", "batch,1\n1,2\n", "needs this column", "global_batch_size"),
        ("throughputs_T4/bert.csv", "global_batch_size,one\n1,2\n", "not a number of GPUs", "column"),
        ("throughputs_T4/bert.csv", "global_batch_size,0\n1,2\n", "not a number of GPUs", "column"),
        ("throughputs_T4/bert.csv", "global_batch_size,1\n1,fast\n", "not a finite number", "1"),
        ("throughputs_T4/bert.csv", "global_batch_size,1\n1,-2\n", "must be at least 0", "1"),
        ("empty/README.md", "nothing", "no measurements in this folder", ""),
        ("throughputs_T4/other.csv", "global_batch_size,1\n1,2\n", "no profile that the catalogue knows", ""),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, path: str, text: str, problem: str, field: str) -> None:
    write(tmp_path / path, text)
    with pytest.raises(ProfileError, match=problem) as caught:
        compare([tmp_path])
    assert caught.value.field == field and caught.value.hint

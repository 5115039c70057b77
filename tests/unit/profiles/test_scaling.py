"""Step times over GPUs and batch size from published tables: reading, extrapolation, fit and description."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rota.beliefs.step_time import StepTime
from rota.errors import ProfileError
from rota.live.given_beliefs import _CODEC as WORDS
from rota.profiles.catalogue import Catalogue
from rota.profiles.scaling import (
    StepTable,
    StepTimes,
    describe_scaling,
    fit_errors,
    measured_points,
    read_step_times,
)
from rota.profiles.simulation_rates import read_rates
from tests.shared import SHARED, needs_shared

TRUTH = StepTime(0.02, 0.003, 0.04, 0.002, 0.15, 0.01, overlap=1.5, most_local=64.0)
POLLUX, ELASTICFLOW = SHARED / "data/pollux_profiles", SHARED / "data/elasticflow"

LINES = {1: ((8.0, 16.0, 32.0), (0.1, 0.15, 0.3)), 2: ((8.0, 16.0, 32.0), (0.2, 0.25, 0.4)), 4: ((8.0, 32.0), (0.4, 0.6))}
TABLE = StepTable(LINES, {8: ((8.0, 32.0), (1.0, 1.4))}, most_local=32.0)


def write_pollux(folder: Path, model: str = "cifar10") -> Path:
    """A folder as Pollux has it, of a model that we made up."""
    cells = [("1", 1, 1), ("2", 2, 1), ("4", 4, 1), ("11", 2, 2), ("44", 8, 2), ("4444", 16, 4)]
    rows = [
        f"{placement},{local},{TRUTH.seconds(gpus, gpus * local, nodes > 1)}"
        for placement, gpus, nodes in cells
        for local in (8, 16, 32, 64)
    ]
    (folder / model).mkdir(parents=True)
    (folder / model / "placements.csv").write_text("\n".join(["placement,local_bsz,step_time", *rows]) + "\n")
    return folder


def test_a_table_goes_along_its_measurements() -> None:
    assert TABLE.seconds(1, 8, False) == 0.1 and TABLE.seconds(2, 64, False) == 0.4
    assert TABLE.seconds(1, 12, False) == pytest.approx(0.125), "a line between two batch sizes"
    assert TABLE.seconds(1, 2, False) == 0.1, "below the smallest as long as there"
    assert TABLE.seconds(3, 24, False) == pytest.approx(0.3), "a line between two numbers of GPUs"
    assert TABLE.seconds(6, 48, False) == pytest.approx(0.6), "beyond the last as much more for each"
    assert TABLE.seconds(8, 64, True) == 1.0 and TABLE.seconds(16, 128, True) == 1.0, "one number of GPUs says no trend"
    assert StepTable(LINES, {}, 32.0).seconds(4, 32, True) == 0.4, "over several nodes nobody measured"


def test_more_gpus_are_never_believed_to_take_less_than_the_most_that_were_measured() -> None:
    falling = StepTable({1: ((8.0,), (0.4,)), 2: ((8.0,), (0.2,))}, {}, 8.0)
    assert falling.seconds(4, 32, False) == 0.2 and falling.seconds(1, 8, False) == 0.4
    assert StepTable({4: ((8.0,), (0.4,)), 8: ((8.0,), (0.9,))}, {}, 8.0).seconds(1, 8, False) == 0.2, "half at least"


def test_several_passes_where_memory_is_exceeded() -> None:
    assert TABLE.seconds(1, 64, False) == pytest.approx(2 * 0.3)
    assert TABLE.seconds(2, 192, False) == pytest.approx(0.4 + 2 * 0.3), "gradients are exchanged after the last pass"


def test_a_step_takes_longer_with_more_examples_where_that_was_measured() -> None:
    for gpus, spans in ((1, False), (2, False), (3, False), (4, False), (6, False), (8, True)):
        found = [TABLE.seconds(gpus, batch, spans) for batch in range(1, 400)]
        assert all(less <= more + 1e-12 for less, more in pairwise(found)), (gpus, spans)


def test_pollux_tables(tmp_path: Path) -> None:
    found = read_step_times(write_pollux(tmp_path))
    (table,) = found.tables.values()
    assert list(found.tables) == ["cifar10 T4"] and found.models == ("cifar10",) and isinstance(table, StepTable)
    assert set(table.inside) == {1, 2, 4} and set(table.between) == {2, 8, 16} and table.most_local == 64
    assert len(measured_points(table)) == 24
    assert found.rate("cifar10/bs32", "T4", 4) == (pytest.approx(1 / TRUTH.seconds(4, 128, False)), 0.0)
    assert found.rate("cifar10/global128", "T4", 4) == found.rate("cifar10/bs32", "T4", 4), "spelled the other way"
    assert found.rate("cifar10/bs32", "T4", 2, 1) == (pytest.approx(1 / TRUTH.seconds(2, 64, True)), 0.0)
    assert found.rate("vgg16/bs32", "T4", 4) == Catalogue().rate("vgg16/bs32", "T4", 4), "what it does not have"
    assert found.rate("stranger", "T4", 4) is None


def test_on_another_type_it_is_as_much_faster_as_the_catalogue_says(tmp_path: Path) -> None:
    found, catalogue = read_step_times(write_pollux(tmp_path)), Catalogue()
    here, there = (catalogue.rate("cifar10/bs32", card, 4) for card in ("V100", "T4"))
    measured, said = found.rate("cifar10/bs32", "T4", 4), found.rate("cifar10/bs32", "V100", 4)
    assert here is not None and there is not None and measured is not None and said is not None
    assert said[0] == pytest.approx(measured[0] * here[0] / there[0]) and said[1] > 0
    own = read_step_times(write_pollux(tmp_path / "more", "own-model"))
    slow, fast = own.rate("own-model/bs32", "T4", 4), own.rate("own-model/bs32", "V100", 4)
    assert slow is not None and fast is not None and fast[0] > slow[0] and fast[1] == 0.5, "by memory bandwidth, a rough rule"


def test_scalability_tables_are_read_too(tmp_path: Path) -> None:
    write_pollux(tmp_path)
    more = "num_nodes,num_replicas,local_bsz,step_time\n8,32,16,0.9\n8,32,32,1.0\n"
    (tmp_path / "cifar10/scalability.csv").write_text(more)
    table = read_step_times(tmp_path).tables["cifar10 T4"]
    assert table.seconds(32, 32 * 16, True) == 0.9


def test_of_two_placements_the_one_on_fewer_nodes_counts(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/placements.csv").write_text("placement,local_bsz,step_time\n1111,8,0.3\n22,8,0.5\n22,8,0.4\n1,8,0.1\n")
    assert read_step_times(tmp_path).tables["net T4"].seconds(4, 32, True) == 0.4


def test_elasticflow_tables(tmp_path: Path) -> None:
    (tmp_path / "throughputs_A100").mkdir()
    (tmp_path / "throughputs_A100/vgg16.csv").write_text("global_batch_size,1,2,16\n64,5.0,8.0,\n128,3.0,5.0,20.0\n")
    found = read_step_times(tmp_path)
    assert found.rate("vgg16/global128", "A100", 2) == (pytest.approx(5.0), 0.0)
    assert found.rate("vgg16/global128", "A100", 16, 1) == (pytest.approx(20.0), 0.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "nowhere", "no such folder"),
        (lambda folder: folder, "no measurements in this folder"),
        (lambda folder: (folder / "a.csv").write_text("x\n1\n") and folder / "a.csv", "is not a folder"),
    ],
    ids=["missing", "empty", "a file"],
)
def test_what_is_no_folder_of_measurements(make: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=said) as caught:
        read_step_times(make(tmp_path))  # type: ignore[operator]
    assert "placements.csv" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_nodes,num_replicas,local_bsz\n1,1,8\n", "step_time"),
        ("num_nodes,num_replicas,local_bsz,step_time\n1,1,8,0\n", "more than 0"),
    ],
)
def test_scalability_tables_that_are_wrong(text: str, said: str, tmp_path: Path) -> None:
    write_pollux(tmp_path)
    (tmp_path / "cifar10/scalability.csv").write_text(text)
    with pytest.raises(ProfileError, match=said):
        read_step_times(tmp_path)


def test_a_scheduler_believes_a_model_with_its_error(tmp_path: Path) -> None:
    measured = read_step_times(write_pollux(tmp_path))
    believed = measured.fitted()
    model = believed.tables["cifar10 T4"]
    assert isinstance(model, StepTime) and model.most_local == 64 and model.error < 0.02
    assert np.abs(fit_errors(measured.tables["cifar10 T4"], model)).max() < 0.05  # type: ignore[arg-type]
    rate = believed.rate("cifar10/bs32", "T4", 4)
    assert rate is not None and rate[1] == model.error
    assert believed.fitted() == believed
    few = StepTimes({"net T4": StepTable({1: ((8.0,), (0.1,))}, {}, 8.0)})
    assert few.fitted() == few, "one measurement is believed as it is"


def test_what_is_read_can_be_kept_in_a_snapshot_or_a_journal(tmp_path: Path) -> None:
    for source in (read_step_times(write_pollux(tmp_path)), StepTimes({"net T4": TABLE})):
        for each in (source, source.fitted()):
            again = WORDS.decode(WORDS.encode(each))
            assert again == each
            assert again.rate("cifar10/global256", "T4", 3, 1) == each.rate("cifar10/global256", "T4", 3, 1)


def test_a_folder_is_a_profile(tmp_path: Path) -> None:
    rates = read_rates(write_pollux(tmp_path))
    assert rates.rate("cifar10/bs32", "T4", 4)[0] == pytest.approx(1 / TRUTH.seconds(4, 128, False))
    assert rates.knows("cifar10/bs32") and rates.knows("vgg16/bs32") and not rates.knows("stranger")


def test_what_is_described(tmp_path: Path) -> None:
    (line,) = describe_scaling(write_pollux(tmp_path))
    assert (line.model, line.accelerator, line.points, line.most_local) == ("cifar10", "T4", 24, 64)
    assert line.mean_error is not None and line.typical_error is not None and line.p90_error is not None
    assert 0 <= line.typical_error <= line.p90_error < 0.05
    assert line.noise_examples is not None and 5_000 < line.noise_examples < 8_000
    assert line.efficiency == pytest.approx(39_062 * 128 / (2_011 * 4096))
    (tmp_path / "few/net").mkdir(parents=True)
    (tmp_path / "few/net/placements.csv").write_text("placement,local_bsz,step_time\n1,8,0.1\n")
    (line,) = describe_scaling(tmp_path / "few")
    assert (line.mean_error, line.typical_error, line.p90_error, line.noise_examples, line.efficiency) == (None,) * 5


@needs_shared
def test_the_model_fits_what_pollux_measured() -> None:
    found = describe_scaling(POLLUX)
    assert [line.model for line in found] == ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"]
    for line in found:
        assert line.points > 100
        assert line.mean_error is not None and line.mean_error < 0.15, line
        assert line.typical_error is not None and line.typical_error < 0.12, line


@needs_shared
def test_the_model_fits_what_elasticflow_measured() -> None:
    found = {(line.model, line.accelerator): line for line in describe_scaling(ELASTICFLOW)}
    assert len(found) == 13 and sum(line.mean_error is None for line in found.values()) == 3
    assert all(line.mean_error < 0.08 for line in found.values() if line.mean_error is not None)


@needs_shared
def test_every_measured_and_modelled_rate_is_a_number() -> None:
    measured = read_step_times(POLLUX)
    for source in (measured, measured.fitted()):
        for model in source.models:
            for gpus in (1, 2, 3, 4, 7, 16, 64):
                for batch in (1, 64, 1000, 100_000):
                    for levels in (0, 1):
                        rate = source.rate(f"{model}/global{batch}", "T4", gpus, levels)
                        assert rate is not None and 0 < rate[0] < math.inf

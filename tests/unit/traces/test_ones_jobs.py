"""Jobs like those of ONES's evaluation: what is fixed, what is drawn, and their names."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.errors import TraceError
from rota.profiles.catalogue import Catalogue
from rota.profiles.ones_models import MODELS
from rota.traces.ones_jobs import ones_jobs
from rota.traces.read_trace import read_trace
from rota.traces.synthetic import named, reseeded
from rota.traces.write_trace import write_trace
from tests.examples import examples


@examples(15)
@given(st.integers(0, 10**18))
def test_it_looks_like_what_ones_was_evaluated_on(seed: int) -> None:
    trace = ones_jobs(seed=seed)
    specs = [arrival.spec for arrival in trace.arrivals]
    assert len(trace) == 400 and trace.arrivals[0].submitted_s == 0.0
    gaps = np.diff([arrival.submitted_s for arrival in trace.arrivals])
    assert (gaps >= 0).all() and 24 < gaps.mean() < 37, "one every 30 seconds"
    counts = Counter((spec.profile, round(spec.epoch_steps * spec.batch_size)) for spec in specs)
    assert len(counts) == 19 and Counter(counts.values()) == {20: 18, 40: 1}
    assert counts["ones/bert-mrpc/global32", 3600] == 40
    for spec in specs:
        model = MODELS[spec.profile.split("/")[1]]
        assert spec.gpus == model.gpus and spec.batch_size == model.gpus * model.local_batch and spec.can_resize
        assert spec.gpu_counts[0] == 1 and spec.gpu_counts[-1] == min(4 * model.gpus, 64)
        assert spec.batch_sizes[-1] == max(min(model.most_times, spec.gpu_counts[-1]) * model.local_batch, spec.batch_size)
        assert 1 <= spec.steps / spec.epoch_steps < 300
        assert Catalogue().rate(spec.profile, "RTX5000", spec.width) is not None


def test_epochs_are_around_those_that_were_published() -> None:
    specs = [arrival.spec for arrival in ones_jobs(4000, 5).arrivals if arrival.spec.profile == "ones/resnet50/global512"]
    for size, epochs in MODELS["resnet50"].epochs.items():
        taken = [spec.steps / spec.epoch_steps for spec in specs if round(spec.epoch_steps * 512) == size]
        assert len(taken) > 100 and np.median(taken) == pytest.approx(epochs, rel=0.1)
        assert np.std(np.log(taken)) == pytest.approx(0.2, abs=0.05)


def test_the_same_seed_gives_the_same_jobs() -> None:
    assert ones_jobs(50, 3).arrivals == ones_jobs(50, 3).arrivals != ones_jobs(50, 4).arrivals
    assert named("ones:jobs=50,seed=3").arrivals == ones_jobs(50, 3).arrivals
    assert reseeded("ones:jobs=50", 3) == "ones:jobs=50,seed=3"


def test_settings() -> None:
    trace = ones_jobs(60, 1, gap_seconds=5.0, spread=0.0, largest=8)
    assert max(arrival.spec.gpus for arrival in trace.arrivals) == 8 == max(a.spec.gpu_counts[-1] for a in trace.arrivals)
    taken = {round(a.spec.steps / a.spec.epoch_steps) for a in trace.arrivals if "resnet50" in a.spec.profile}
    assert taken == {44, 27}
    assert trace.arrivals[-1].submitted_s < 60 * 5.0 * 2
    assert not ones_jobs(5, 1, largest=1).arrivals[0].spec.gpu_counts
    assert len(ones_jobs(1, 1)) == 1


@pytest.mark.parametrize("text", ["ones:jobs=0", "ones:spread=9", "ones:gap_seconds=0", "ones:largest=x", "ones:gpus=3"])
def test_settings_that_are_wrong(text: str) -> None:
    with pytest.raises(TraceError, match=text.split(":")[1].split("=")[0]):
        named(text)


def test_written_and_read_again(tmp_path: Path) -> None:
    trace = ones_jobs(30, 2)
    write_trace(trace, tmp_path / "ones.csv")
    assert read_trace(tmp_path / "ones.csv").arrivals == trace.arrivals
    assert "epoch_steps" in (tmp_path / "ones.csv").read_text().splitlines()[0]


def test_they_can_be_simulated() -> None:
    for way in (None, "none", "gpus"):
        result = rota.simulate("ones:jobs=20,seed=1", policy="srsf", cluster="16x(4xRTX5000)", elastic=way)
        assert result.summary.finished == 20 and not [note for note in result.notes if "scale" in note]

"""`--elastic`: the sizes that jobs accept, and the note about jobs that keep their size."""

from pathlib import Path
from typing import Any

import pytest

import rota
from rota.beliefs.rates import Rates
from rota.beliefs.step_time import StepTime
from rota.compose.elastic_jobs import made_elastic
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.errors import TraceError, UnknownNameError
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import STEPS, published_efficiency
from rota.profiles.scaling import StepTable, StepTimes
from rota.traces.trace import Trace
from tests.unit.profiles.test_scaling import TRUTH, write_pollux

RATES = Rates(model=Catalogue(), efficiency=published_efficiency())


def trace(*specs: JobSpec) -> Trace:
    return Trace("some", "made", tuple(Arrival(5.0 * number, spec) for number, spec in enumerate(specs)))


def made(way: str, rates: Rates = RATES, there: int = 64, **fields: Any) -> JobSpec:
    (arrival,) = made_elastic(way, trace(JobSpec(steps=100.0, **fields)), rates, there).arrivals
    assert arrival.submitted_s == 0.0 and arrival.spec.steps == 100.0
    return arrival.spec


def test_none_takes_other_sizes_away() -> None:
    spec = made("none", gpus=2, profile="cifar10/global512", gpu_counts=(1, 4), batch_size=512, batch_sizes=(256,))
    assert not spec.demand.elastic and not spec.can_resize and (spec.gpus, spec.batch_size) == (2, 512)


def test_gpus_keeps_the_batch_size() -> None:
    spec = made("gpus", profile="cifar10/global512", gpus=2)
    assert spec.gpu_counts == (1, 2, 4, 8) and spec.batch_size == 512 and not spec.batch_sizes and spec.can_resize
    assert made("gpus", profile="cifar10/global512", gpus=6).gpu_counts == (1, 2, 4, 6, 8, 16)
    assert made("gpus", profile="cifar10/global512", gpus=6, there=8).gpu_counts == (1, 2, 4, 6, 8), "no more than there are"
    assert made("gpus", profile="cifar10/global512", gpus=6, gpu_counts=(3,)).gpu_counts == (3, 6), "what the trace says"


def test_batch_adds_the_sizes_that_efficiency_was_measured_at() -> None:
    spec = made("batch", profile="cifar10/global500", gpus=2)
    assert spec.batch_size == 500 and spec.batch_sizes == tuple(sorted([*STEPS["cifar10"], 500]))
    assert made("batch", profile="cifar10/global512", batch_size=512, batch_sizes=(64,)).batch_sizes == (64, 512)
    assert not made("batch", profile="dcgan/global64", gpus=2).batch_sizes, "of this model no efficiency is known"


@pytest.mark.parametrize(
    ("profile", "key", "batch_size"),
    [("resnet50/bs64", "resnet50/global256", 256), ("resnet50/global96", "resnet50/global96", 96)],
)
def test_the_batch_size_is_what_the_profile_says(profile: str, key: str, batch_size: int) -> None:
    spec = made("batch", profile=profile, gpus=4)
    assert (spec.profile, spec.batch_size) == (key, batch_size)
    before, after = (RATES.rate(each, "V100", 4)[0] for each in (profile, key))
    assert before == pytest.approx(after), "at the size it asked for it is as fast as before"


def test_gavels_profiles_have_no_batch_size_of_a_gang() -> None:
    spec = made("batch", profile="ResNet-50 (batch size 64)", gpus=4)
    assert spec.profile == "ResNet-50 (batch size 64)" and spec.gpu_counts and not spec.batch_size


def test_what_was_measured_still_counts() -> None:
    """The profile is not spelled anew where it was measured: the catalogue would answer then."""
    measured = Rates(table={("resnet50/bs64", "V100", 4): 3.0}, model=Catalogue(), efficiency=published_efficiency())
    spec = made("batch", measured, profile="resnet50/bs64", gpus=4)
    assert spec.profile == "resnet50/bs64" and spec.batch_size == 256
    assert measured.rate_of(spec.profile, spec.demand, "V100", 4, 256)[0] == 3.0


def test_jobs_that_stay_as_they_are() -> None:
    jobs = [JobSpec(profile=name, gpus=2) for name in ("stranger", "stranger", "", "pal/vgg19", "vgg16/bs32")]
    found = made_elastic("gpus", trace(*jobs, JobSpec(gpus=0.5, profile="vgg16/bs32")), RATES, 8)
    assert [arrival.spec.demand.elastic for arrival in found.arrivals] == [False] * 4 + [True, False]
    assert found.notes == (
        "4 of 6 jobs are not elastic, because how they scale is unknown ('stranger', no profile, 'pal/vgg19')",
    )
    assert made_elastic("none", trace(*jobs), RATES, 8).notes == ()


def test_whether_a_job_fits_is_asked_of_the_sizes_it_has_then() -> None:
    wide = trace(JobSpec(steps=9.0, gpus=16, gpu_counts=(1, 2, 16), profile="vgg16/bs8"), JobSpec(steps=9.0))
    assert rota.simulate(wide, cluster="1x(8xV100)").summary.finished == 2
    with pytest.raises(TraceError, match="1 job can never run"):
        rota.simulate(wide, cluster="1x(8xV100)", elastic="none")
    assert rota.simulate(wide, cluster="1x(8xV100)", elastic="none", drop_oversized=True).summary.jobs == 1
    rigid = trace(JobSpec(steps=9.0, gpus=16, profile="vgg16/bs8"))
    assert rota.simulate(rigid, cluster="1x(8xV100)", elastic="gpus").summary.finished == 1


def test_no_such_way() -> None:
    with pytest.raises(UnknownNameError, match="batsch"):
        rota.simulate("synthetic:jobs=2", elastic="batsch")


@pytest.mark.parametrize(
    ("way", "specs", "note"),
    [
        ("none", [JobSpec(steps=9.0)], "--elastic none does nothing: no job here accepts another size"),
        ("batch", [JobSpec(steps=9.0)], "--elastic batch does nothing: no job here accepts another size"),
        (
            "gpus",
            [JobSpec(steps=9.0, gpu_counts=(1, 2))],
            "--elastic gpus does nothing: every job accepts the same sizes without it",
        ),
    ],
)
def test_what_does_nothing_says_so(way: str, specs: list[JobSpec], note: str) -> None:
    assert any(said.startswith(note) for said in rota.simulate(trace(*specs), elastic=way, cluster="2xV100").notes)


@pytest.mark.parametrize(
    ("way", "spec"),
    [
        ("none", JobSpec(steps=9.0, gpu_counts=(1, 2))),
        ("gpus", JobSpec(steps=9.0, profile="vgg16/bs32")),
        ("batch", JobSpec(steps=9.0, profile="vgg16/bs32")),
    ],
)
def test_what_does_something_is_not_told_of(way: str, spec: JobSpec) -> None:
    result = rota.simulate(trace(spec), elastic=way, cluster="2xV100")
    assert result.notes == [] and result.params["elastic"] == way


def test_an_elastic_job_of_a_folder_is_simulated_by_the_tables_and_scheduled_by_the_model(tmp_path: Path) -> None:
    study = {"trace": trace(JobSpec(steps=500.0, gpus=2, profile="cifar10/global128")), "cluster": "2x(4xT4)"}
    ready = prepare_study(make_study({**study, "profile": write_pollux(tmp_path), "elastic": "batch"}))
    true, believed = ready.physics.rates, ready.setup.given.rates
    assert isinstance(true.model, StepTimes) and isinstance(believed.model, StepTimes)
    assert isinstance(true.model.tables["cifar10 T4"], StepTable) and isinstance(believed.model.tables["cifar10 T4"], StepTime)
    assert true.efficiency == published_efficiency() and believed.efficiency == published_efficiency().modelled()
    assert not [note for note in ready.params["notes"] if "--profile" in note], "the folder has this model"
    spec = ready.trace.arrivals[0].spec
    assert true.rate_of(spec.profile, spec.demand, "T4", 2, 128)[0] == pytest.approx(1 / TRUTH.seconds(2, 128, False))
    assert true.rate_of(spec.profile, spec.demand, "T4", 4, 256)[0] == pytest.approx(
        39_062 / 20_377 / TRUTH.seconds(4, 256, False)
    )
    other = prepare_study(make_study({**study, "trace": trace(JobSpec(profile="vgg16/bs8", steps=9.0)), "profile": tmp_path}))
    assert any(note.startswith("--profile does nothing") for note in other.params["notes"])

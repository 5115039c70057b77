"""Rates at the sizes that an elastic job accepts: however its profile is spelled, and never free progress."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.rates import UNPROFILED_UNCERTAINTY, Rates, at_size, examples_of, local_batch, model_of
from rota.model.cluster import Cluster
from rota.model.job import Demand, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.sim.physics import Physics

COUNTS, SIZES = (1, 2, 4, 8), (64, 128, 256, 512, 1024)
MODELLED = Rates(model=Catalogue(), efficiency=published_efficiency())


def test_what_a_profile_says_of_its_batch() -> None:
    assert [model_of(key) for key in ("resnet50/bs64", "ones/vgg16/global512", "elasticflow/bert")] == [
        "resnet50",
        "ones/vgg16",
        "elasticflow/bert",
    ]
    assert [local_batch(key) for key in ("resnet50/bs64", "resnet50/global64", "resnet50", "x/bsides", "")] == [64, 0, 0, 0, 0]
    assert examples_of("resnet50/bs64", Demand(4)) == 256 and examples_of("resnet50/bs64", Demand(4), 2) == 128
    assert examples_of("resnet50", Demand(4)) == 0 and examples_of("resnet50", Demand(4, batch_size=96)) == 96


def test_a_profile_at_another_size() -> None:
    of_gang, of_each = Demand(4, COUNTS, 256, SIZES), Demand(4, COUNTS)
    assert at_size("net/global256", of_gang, 8, 512) == "net/global512"
    assert at_size("net/global256", of_gang, 8, 256) == "net/global256"
    assert at_size("net/global999", of_gang, 8, 512) == "net/global999", "it names another batch than the job"
    assert at_size("net", of_gang, 8, 512) == "net"
    assert at_size("net/bs64", of_each, 4, 0) == "net/bs64"
    assert at_size("net/bs64", of_each, 1, 0) == "net/global256", "on one GPU the batch is still that of four"
    assert at_size("net/bs64", of_gang, 8, 512) == "net/bs64"


@pytest.mark.parametrize("gpus", COUNTS)
@pytest.mark.parametrize("batch", SIZES)
def test_the_same_job_runs_at_the_same_rate_however_it_is_spelled(gpus: int, batch: int) -> None:
    """In physics: four GPUs with 64 examples each, or 256 examples on four GPUs."""
    cluster, physics = Cluster.parse("1x(8xV100)"), Physics(rates=MODELLED)
    devices = np.arange(gpus)
    rates = [
        physics.rate(
            JobSpec(gpus=4, gpu_counts=COUNTS, batch_size=256, batch_sizes=SIZES, profile=key), cluster, devices, 0, batch
        )
        for key in ("resnet50/global256", "resnet50/bs64")
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-12) and rates[0] > 0


def test_at_the_size_it_asked_for_an_elastic_job_is_as_fast_as_a_rigid_one() -> None:
    cluster, physics = Cluster.parse("2x(4xV100)"), Physics(rates=MODELLED)
    for key in ("resnet50/global256", "resnet50/bs64", "resnet50", "ResNet-50 (batch size 64)", "", "stranger"):
        rigid = JobSpec(gpus=4, profile=key, batch_size=256)
        elastic = JobSpec(gpus=4, profile=key, batch_size=256, gpu_counts=COUNTS, batch_sizes=SIZES)
        rates = [physics.rate(spec, cluster, np.arange(4), 0) for spec in (rigid, elastic)]
        assert rates[0] == rates[1], key


def test_fewer_gpus_are_not_as_fast_as_more_because_the_profile_names_the_batch_of_a_gpu() -> None:
    """64 examples on one GPU are a quarter of a step with 64 on each of four."""
    rates = [MODELLED.rate_of("resnet50/bs64", Demand(4, COUNTS), "V100", gpus)[0] for gpus in COUNTS]
    assert all(fewer < more for fewer, more in pairwise(rates))
    assert rates[0] < 0.4 * rates[2]


@given(st.sampled_from(["resnet50", "cifar10", "bert", "deepspeech2", "yolov3"]), st.sampled_from(COUNTS))
def test_as_many_examples_a_second_train_less_in_larger_batches(model: str, gpus: int) -> None:
    demand = Demand(4, COUNTS, 64, SIZES)
    found = [MODELLED.rate_of(f"{model}/global64", demand, "V100", gpus, size)[0] for size in SIZES]
    plain = [Rates(model=Catalogue()).rate_of(f"{model}/global64", demand, "V100", gpus, size)[0] for size in SIZES]
    ratios = [one / other for one, other in zip(found, plain, strict=True) if other > 0]
    assert all(more <= less * 1.01 for less, more in pairwise(ratios)) and ratios[0] == pytest.approx(1.0)


def test_a_batch_size_that_nothing_is_known_of_has_as_many_examples_a_second() -> None:
    """They train less in larger batches, where that is known."""
    demand = Demand(1, (), 100, (50, 100, 200))
    plain = Rates(table={("net", "V100", 1): 10.0})
    assert plain.rate_of("net", demand, "V100", 1, 200) == (10.0, UNPROFILED_UNCERTAINTY)
    known = Rates(table={("net", "V100", 1): 10.0}, efficiency=Efficiency(noise={"net": 100.0}))
    assert known.rate_of("net", demand, "V100", 1, 200)[0] == pytest.approx(10.0 * 200 / 300)
    assert known.rate_of("net", demand, "V100", 1, 50)[0] == pytest.approx(10.0 * 200 / 150)


@pytest.mark.parametrize("profile", ["", "stranger", "stranger/bs64", "stranger/global256"])
def test_a_job_that_nothing_is_known_of_has_speed_in_proportion_to_its_gpus(profile: str) -> None:
    found = [MODELLED.rate_of(profile, Demand(4, COUNTS), "V100", gpus)[0] for gpus in COUNTS]
    assert found == pytest.approx([0.25, 0.5, 1.0, 2.0])


def test_a_profile_that_names_a_batch_nobody_measured() -> None:
    """Not one step a second, as a job without a profile: as many examples as at the one that was measured."""
    demand = Demand(2, (1, 2), 64, (64, 128))
    rates = Rates(table={("own/global64", "V100", 1): 5.0, ("own/global64", "V100", 2): 8.0})
    assert rates.rate_of("own/global64", demand, "V100", 2, 128) == (8.0, UNPROFILED_UNCERTAINTY)
    assert rates.rate_of("own/global64", demand, "V100", 1, 64) == (5.0, 0.0)
    each = Rates(table={("own/bs64", "V100", 1): 5.0, ("own/bs64", "V100", 2): 4.0})
    assert each.rate_of("own/bs64", Demand(2, (1, 2)), "V100", 2)[0] == 4.0
    assert each.rate_of("own/bs64", Demand(2, (1, 2)), "V100", 1)[0] == pytest.approx(2.5), "half the examples of a step of two"


def test_a_measured_profile_scales_to_other_sizes_as_the_model_says() -> None:
    """It was measured twice as fast as the catalogue says, so it counts as twice as fast at all sizes."""
    demand = Demand(4, COUNTS, 256, SIZES)
    modelled = MODELLED.rate_of("resnet50/global256", demand, "V100", 4, 256)[0]
    measured = Rates(table={("resnet50/global256", "V100", 4): 2 * modelled}, model=Catalogue(), efficiency=MODELLED.efficiency)
    for gpus, batch in ((4, 256), (4, 512), (8, 512), (1, 64)):
        said = MODELLED.rate_of("resnet50/global256", demand, "V100", gpus, batch)[0]
        assert measured.rate_of("resnet50/global256", demand, "V100", gpus, batch)[0] == pytest.approx(2 * said)
    assert measured.measured("resnet50/global256") and not measured.measured("resnet50/global512")


def test_what_a_job_is_measured_at_is_what_is_believed_of_it_then() -> None:
    """Steps are those of the size it asked for, also where its profile names the batch of a GPU."""
    each = Rates(table={("own/bs64", "V100", 2): 4.0}, efficiency=Efficiency(noise={"own": 300.0}))
    demand = Demand(2, (1, 2), 128, (128, 256))
    for gpus, batch in ((1, 128), (2, 256)):
        assert each.goes_by_batch("own/bs64", demand, "V100", gpus, batch)
        learned = each.batch_measurement("own/bs64", demand, "V100", gpus, 1.7, batch).over(each)
        assert learned.rate_of("own/bs64", demand, "V100", gpus, batch) == pytest.approx((1.7, 0.0), abs=UNPROFILED_UNCERTAINTY)
    assert not each.goes_by_batch("own/bs64", demand, "V100", 2, 128)

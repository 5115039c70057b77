"""The built-in catalogue: what keys mean, what fits, and that its figures are those of the models."""

import math

import pytest

from rota.beliefs.roofline import memory_gib, step_seconds
from rota.errors import UnknownNameError
from rota.model.accelerators import ACCELERATORS
from rota.profiles.catalogue import ALIASES, GAVEL, PAL_SECONDS, SPREAD, UNKNOWN_SPREAD, Catalogue, read_key
from rota.profiles.describe import COUNTS, TYPES, describe, entries
from rota.profiles.workloads import WORKLOADS

BUILT_IN = Catalogue()


def rate(profile: str, accelerator: str = "V100", gpus: int = 1, levels: int = 0, catalogue: Catalogue = BUILT_IN) -> float:
    found = catalogue.rate(profile, accelerator, gpus, levels)
    assert found is not None
    return found[0]


def test_a_dozen_models_and_more_on_the_eight_types() -> None:
    assert len(WORKLOADS) >= 30 and set(TIRESIAS) <= set(WORKLOADS)
    for name, workload in WORKLOADS.items():
        assert name == workload.name and workload.title
        rates = [rate(name, kind) for kind in TYPES]
        assert all(math.isfinite(each) for each in rates)
        assert any(each > 0 for each in rates), f"{name} runs somewhere"
    for target in (*ALIASES.values(), *GAVEL.values(), *PAL_SECONDS):
        assert target in WORKLOADS


@pytest.mark.parametrize(
    ("name", "params_m", "gflops"),
    [
        ("resnet50", 25.6, 24.7),
        ("vgg16", 138.4, 93.0),
        ("bert", 109.5, 212.0),
        ("gpt2", 124.4, 880.0),
        ("inception3", 23.8, 34.4),
        ("alexnet", 61.1, 4.3),
        ("resnet101", 44.5, 47.0),
        ("inception4", 42.7, 73.7),
        ("googlenet", 6.62, 9.0),
    ],
)
def test_figures_are_the_published_ones(name: str, params_m: float, gflops: float) -> None:
    assert WORKLOADS[name].params == pytest.approx(params_m * 1e6)
    assert WORKLOADS[name].flops_per_example == pytest.approx(gflops * 1e9, rel=0.05)


TIRESIAS = ("vgg19", "vgg16", "vgg11", "alexnet", "resnet152", "resnet101", "resnet50", "inception4", "inception3", "googlenet")


def test_every_model_has_a_skew_and_those_of_tiresias_fall_in_two() -> None:
    for name, workload in WORKLOADS.items():
        assert workload.skew is not None and 0 < workload.skew < 1, name
        assert BUILT_IN.skew(name) == workload.skew
    skews = {name: WORKLOADS[name].skew or 0.0 for name in TIRESIAS}
    assert all(skew > 0.6 for skew in list(skews.values())[:4]) and all(skew < 0.16 for skew in list(skews.values())[4:])


@pytest.mark.parametrize(
    ("name", "skew"),
    [("vgg19", 0.715), ("vgg16", 0.743), ("vgg11", 0.773), ("alexnet", 0.618), ("resnet50", 0.092), ("bert", 0.214)],
)
def test_skews_are_those_of_the_architecture(name: str, skew: float) -> None:
    assert WORKLOADS[name].skew == pytest.approx(skew, abs=0.0006)


def test_the_skew_of_any_key() -> None:
    assert BUILT_IN.skew("resnet50/global256") == BUILT_IN.skew("ResNet-50 (batch size 64)") == BUILT_IN.skew("imagenet")
    assert BUILT_IN.skew("pal/vgg19") == BUILT_IN.skew("vgg19") != BUILT_IN.skew("vgg16")
    assert BUILT_IN.skew("mine") is None
    lora = WORKLOADS["llama7b-lora"]
    assert lora.skew == lora.largest_params / lora.trained_params, "of what is trained"


def test_known_cases_of_memory() -> None:
    assert 9.0 < memory_gib(WORKLOADS["resnet50"], 128) < 12.5, "128 images fill a 12 GiB card"
    assert rate("resnet50/bs128", "K80") == 0.0 < rate("resnet50/bs64", "K80"), "as in Gavel's physical table"
    assert rate("imagenet/bs200", "T4") > 0.0 == rate("resnet50/bs200", "T4"), "200 images fit only in mixed precision"
    assert rate("llama7b", "A100") == 0.0 < rate("llama7b", "A100", 8), "its state is shared by the gang"
    assert rate("llama7b", "H200") > 0.0
    assert rate("llama7b-lora", "A10") > 0.0 == rate("llama7b-lora", "K80")


def test_batches() -> None:
    assert rate("resnet50") == rate("resnet50/bs64") == rate("resnet50/global64")
    assert rate("resnet50/global256", gpus=4) == rate("resnet50/bs64", gpus=4)
    assert rate("resnet50/global10", gpus=4) == rate("resnet50/bs3", gpus=4), "the fullest GPU decides"
    assert rate("resnet50/global1", gpus=8) == rate("resnet50/bs1", gpus=8)


def test_a_global_batch_that_does_not_fit_is_gathered_in_passes() -> None:
    assert rate("bert/bs384", "T4") == 0.0 < rate("bert/global384", "T4")
    assert rate("imagenet/global12800", "T4") == pytest.approx(rate("imagenet/global6400", "T4") / 2, rel=0.05)
    assert rate("llama7b/global8", "V100") == 0.0, "not even one example fits"


def test_gavels_names_add_up_the_steps_of_all_workers() -> None:
    assert rate("ResNet-50 (batch size 64)") == rate("resnet50/bs64")
    assert rate("ResNet-50 (batch size 64)", gpus=8) == pytest.approx(8 * rate("resnet50/bs64", gpus=8))
    assert rate("A3C") == rate("a3c") and rate("CycleGAN") == rate("cyclegan")


def test_names_of_other_papers() -> None:
    assert rate("cifar10/bs128", "T4") == rate("resnet18/bs128", "T4")
    assert rate("elasticflow/bert/global64", "A100") == rate("bert-cola/bs64", "A100")


@pytest.mark.parametrize(("name", "seconds"), PAL_SECONDS.items())
def test_pals_iterations_take_as_long_as_published_on_any_number_of_gpus(name: str, seconds: float) -> None:
    assert rate(f"pal/{name}") == rate(f"pal/{name}", gpus=48, levels=1) == pytest.approx(1 / seconds)
    workload = WORKLOADS[name]
    v100, k80 = (step_seconds(workload, ACCELERATORS[kind], workload.default_batch) for kind in ("V100", "K80"))
    assert rate(f"pal/{name}", "K80") * seconds == pytest.approx(v100 / k80), "in proportion to the model"
    assert rate(f"pal/{name}", "K80") < rate(f"pal/{name}") < rate(f"pal/{name}", "H100")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "resnet",
        "resnet50/",
        "resnet50/bs",
        "resnet50/bs0",
        "resnet50/bs-1",
        "resnet50/bs1.5",
        "resnet50/bs64/bs64",
        "resnet50/local64",
        "resnet50/bs99999999",
        "RESNET50",
        "ResNet-50 (batch size 0)",
        "ResNet-50 (batch size 64",
        "VGG (batch size 64)",
        "pal/vgg16",
        "pal/",
        "elasticflow/nothing",
        "/bs64",
        "resnet50\n",
    ],
)
def test_keys_it_does_not_know(key: str) -> None:
    assert read_key(key) is None
    assert BUILT_IN.rate(key, "V100", 1) is None
    with pytest.raises(UnknownNameError):
        describe(key)


def test_links_decide_how_gangs_scale() -> None:
    slow = Catalogue({"V100": 1.0}, inter_node_gb_s=0.1)
    assert rate("vgg19", gpus=4, catalogue=slow) < rate("vgg19", gpus=4)
    assert rate("vgg19", gpus=4, levels=1, catalogue=slow) < rate("vgg19", gpus=4, catalogue=slow)
    assert rate("vgg19", gpus=1, catalogue=slow) == rate("vgg19")
    assert rate("vgg19", "A100", gpus=4, catalogue=slow) == rate("vgg19", "A100", gpus=4)


def test_an_unknown_type_counts_as_a_v100_with_less_certainty() -> None:
    known, unknown = BUILT_IN.rate("resnet50", "V100", 2), BUILT_IN.rate("resnet50", "GAUDI3", 2)
    assert known is not None and unknown is not None
    assert unknown == (known[0], UNKNOWN_SPREAD) and known[1] == SPREAD < UNKNOWN_SPREAD


def test_answers_are_remembered_and_catalogues_stay_apart() -> None:
    first, second = Catalogue(), Catalogue(inter_node_gb_s=0.1)
    assert first.rate("vgg19", "V100", 4, 1) is first.rate("vgg19", "V100", 4, 2)
    assert first.rate("vgg19", "V100", 4, 1) != second.rate("vgg19", "V100", 4, 1)
    assert first == Catalogue(), "what it remembers is not what it is"


def test_descriptions() -> None:
    listed = {entry.name: entry for entry in entries()}
    assert list(listed) == sorted(WORKLOADS)
    assert listed["resnet50"].steps_per_second["V100"] == rate("resnet50")
    model = describe("bert/global384")
    assert (model.batch, model.batch_of, model.skew) == (384, "gang", WORKLOADS["bert"].skew)
    assert len(model.rates) == len(ACCELERATORS) * len(COUNTS)
    way = next(way for way in model.rates if (way.accelerator, way.gpus) == ("T4", 4))
    assert way.fits and way.steps_per_second == rate("bert/global384", "T4", 4) and way.memory_gib < 15.2
    huge = describe("llama7b")
    assert not next(way for way in huge.rates if (way.accelerator, way.gpus) == ("K80", 1)).fits

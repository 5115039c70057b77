"""The park method of a job and its reason: every reason once, and no method that cannot work."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rota.park.park_environment import HOOK_FOLDER, parking_environment
from rota.park.park_method import (
    DRIVER,
    EXIT,
    NODE,
    PRELOAD,
    SLEEP,
    ParkingFacts,
    can_sleep,
    choose_park_method,
    how_to_park_on_a_node,
)

GOOD = {"real_gpus": True, "python": "/env/bin/python", "torch_found": True, "cuda_major": 13, "library": "/env/saver.so"}


@pytest.mark.parametrize(
    ("more", "way", "reason"),
    [
        ({}, PRELOAD, "PyTorch with CUDA 13"),
        ({"real_gpus": False}, SLEEP, "pretend"),
        ({"real_gpus": False, "torch_found": False, "library": ""}, SLEEP, "pretend"),
        ({"wanted": False}, EXIT, "park: false"),
        ({"wanted": False, "real_gpus": False}, EXIT, "park: false"),
        ({"gpus": 2}, EXIT, "several GPUs"),
        ({"gpus": 0.5}, PRELOAD, "PyTorch"),
        ({"obstacle": "its command ./train is not Python"}, EXIT, "./train is not Python"),
        ({"torch_found": False}, EXIT, "/env/bin/python has no PyTorch"),
        ({"cuda_major": None}, EXIT, "without CUDA"),
        ({"allocator_options": "max_split_size_mb:64, expandable_segments: True"}, EXIT, "expandable_segments"),
        ({"allocator_options": "expandable_segments:False"}, PRELOAD, "PyTorch"),
        ({"library": ""}, EXIT, "for CUDA 13 is not installed; pip install"),
        ({"library": "", "driver_problem": "the driver is older"}, EXIT, "checkpoint: the driver is older"),
        ({"library": "", "driver_problem": ""}, DRIVER, "is not installed; pip install"),
        ({"obstacle": "its command ./train is not Python", "driver_problem": ""}, DRIVER, "because its command ./train is not"),
        ({"gpus": 2, "driver_problem": ""}, EXIT, "several GPUs"),
        ({"driver_problem": ""}, PRELOAD, "PyTorch"),
        ({"real_gpus": False, "obstacle": "it is not Python", "driver_problem": ""}, EXIT, "it is not Python"),
        ({"library_problem": "libcudart.so.13: cannot open"}, EXIT, "cannot be loaded: libcudart.so.13"),
    ],
)
def test_how_to_park(more: dict[str, object], way: str, reason: str) -> None:
    chosen, why = choose_park_method(ParkingFacts(**{**GOOD, **more}))  # type: ignore[arg-type]
    assert chosen == way and reason in why


facts = some.builds(
    ParkingFacts,
    wanted=some.booleans(),
    gpus=some.sampled_from([0.5, 1, 2, 8]),
    real_gpus=some.booleans(),
    python=some.sampled_from(["", "/env/bin/python"]),
    obstacle=some.sampled_from(["", "it is not Python"]),
    torch_found=some.booleans(),
    cuda_major=some.sampled_from([None, 12, 13]),
    library=some.sampled_from(["", "/env/saver.so"]),
    library_path=some.sampled_from([(), ("/env/lib",)]),
    library_problem=some.sampled_from(["", "it is broken"]),
    allocator_options=some.sampled_from(["", "expandable_segments:True"]),
    driver_problem=some.sampled_from(["", "it is older than 570"]),
)


@given(facts)
def test_an_allocator_is_preloaded_only_where_everything_for_it_is_there(known: ParkingFacts) -> None:
    way, why = choose_park_method(known)
    added = parking_environment(known, {"PYTHONPATH": "/mine", "LD_PRELOAD": "/mine.so"})
    assert why and bool(added) == can_sleep(way)
    assert ("LD_PRELOAD" in added) == (way == PRELOAD)
    if way == DRIVER:
        assert added == {"ROTA_PARK": way} and known.real_gpus and not known.driver_problem and known.gpus <= 1
    elif added:
        assert added["PYTHONPATH"] == f"{HOOK_FOLDER}:/mine" and added["ROTA_PARK"] == way
    if way == PRELOAD:
        assert known.real_gpus and known.library and not known.library_problem and known.gpus <= 1
        assert added["LD_PRELOAD"] == f"{known.library}:/mine.so"
        assert added.get("LD_LIBRARY_PATH", "") == ":".join(known.library_path)
    if way == SLEEP:
        assert not known.real_gpus


def test_on_a_cluster_the_node_has_the_last_word() -> None:
    assert how_to_park_on_a_node(wanted=True, gpus=1)[0] == how_to_park_on_a_node(wanted=True, gpus=0.5)[0] == NODE
    assert can_sleep(NODE), "until its node says otherwise"
    assert how_to_park_on_a_node(wanted=False, gpus=1) == (EXIT, "its spec has park: false")
    assert how_to_park_on_a_node(wanted=True, gpus=2)[0] == EXIT

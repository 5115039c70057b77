"""The model of a step: its parts, and its invariants for any figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs import roofline
from rota.beliefs.roofline import Workload, busy_seconds, fits, memory_gib, ring_seconds, room, step_seconds, usable_tflops
from rota.model.accelerators import ACCELERATORS, Accelerator
from rota.profiles.workloads import WORKLOADS

V100 = ACCELERATORS["V100"]
PLAIN = Workload(
    name="plain",
    title="",
    flops_per_example=1e10,
    bytes_per_example=1e6,
    params=1e6,
    activation_bytes_per_example=1e7,
    launches=100,
    default_batch=32,
)

workloads = st.builds(
    Workload,
    name=st.just("any"),
    title=st.just(""),
    flops_per_example=st.floats(1e6, 1e14),
    bytes_per_example=st.floats(1e3, 1e11),
    params=st.floats(1e5, 1e10),
    activation_bytes_per_example=st.floats(1e3, 1e9),
    launches=st.integers(0, 10_000),
    default_batch=st.integers(1, 512),
    precision=st.sampled_from(["fp32", "half"]),
    wide=st.booleans(),
    bytes_per_param_state=st.sampled_from([8.0, 12.0, 16.0]),
    host_seconds_per_example=st.sampled_from([0.0, 1e-4, 0.01]),
    sharded=st.booleans(),
) | st.sampled_from(sorted(WORKLOADS.values(), key=lambda workload: workload.name))
cards = st.sampled_from(list(ACCELERATORS.values()))
batches, counts = st.integers(1, 4096), st.sampled_from([1, 2, 3, 4, 8, 16, 64])
faster = st.floats(1.0, 10.0)


def test_whichever_is_slowest_decides() -> None:
    compute = 32 * 1e10 / (15.7e12 * roofline.PLAIN_EFFICIENCY)
    assert busy_seconds(PLAIN, V100, 32) == pytest.approx(compute)
    heavy = replace(PLAIN, bytes_per_example=1e10)
    # Activations, and the state of the optimiser read and written.
    moved = 32 * 1e10 + 2 * 12 * 1e6
    assert busy_seconds(heavy, V100, 32) == pytest.approx(moved / (900e9 * roofline.MEMORY_EFFICIENCY))
    assert busy_seconds(replace(PLAIN, host_seconds_per_example=0.5), V100, 32) == 16.0


def test_launches_cost_less_beside_a_modern_accelerator() -> None:
    idle = replace(PLAIN, flops_per_example=0.0, bytes_per_example=0.0, params=0.0)
    assert step_seconds(idle, V100, 1) == pytest.approx(100 * roofline.LAUNCH_SECONDS)
    assert step_seconds(idle, ACCELERATORS["H100"], 1) == pytest.approx(100 * roofline.MODERN_LAUNCH_SECONDS)


def test_the_ring_is_as_fast_as_its_slowest_link_and_partly_hidden() -> None:
    big = replace(PLAIN, params=1e9, flops_per_example=1e6)
    busy = busy_seconds(big, V100, 1)
    ring = 2 * 3 / 4 * 4e9 / 10e9
    assert ring_seconds(big, 4, 10.0) == pytest.approx(ring)
    alone = step_seconds(big, V100, 1)
    together = step_seconds(big, V100, 1, 4, intra_node_gb_s=10.0)
    assert together - alone == pytest.approx(ring - roofline.OVERLAP * busy)
    apart = step_seconds(big, V100, 1, 4, 2, intra_node_gb_s=10.0, inter_node_gb_s=1.0)
    assert apart - alone == pytest.approx(10 * ring - roofline.OVERLAP * busy)
    assert step_seconds(big, V100, 1, 4, 2, intra_node_gb_s=10.0, inter_node_gb_s=1e3) == together, "no faster than inside"
    assert step_seconds(PLAIN, V100, 256, 4) == step_seconds(PLAIN, V100, 256), "small gradients hide entirely"


def test_passes_repeat_the_work_and_synchronise_once() -> None:
    once, thrice = step_seconds(PLAIN, V100, 32), step_seconds(PLAIN, V100, 96, passes=3)
    assert thrice == pytest.approx(3 * once)


def test_memory_of_all_kinds() -> None:
    state = 12e6 / 2**30
    assert memory_gib(PLAIN, 0) == pytest.approx(roofline.RUNTIME_GIB + state)
    assert memory_gib(PLAIN, 100) - memory_gib(PLAIN, 0) == pytest.approx(1e9 / 2**30)
    sharded = replace(PLAIN, sharded=True)
    assert memory_gib(sharded, 0, 4) == pytest.approx(roofline.RUNTIME_GIB + state / 4)
    frozen = replace(PLAIN, trained_params=1e5)
    assert memory_gib(frozen, 0) == pytest.approx(roofline.RUNTIME_GIB + (2 * 9e5 + 12 * 1e5) / 2**30)
    assert room(replace(PLAIN, params=1e10), V100) == 0
    assert not fits(replace(PLAIN, params=1e10), V100, 1)


def test_half_precision_needs_tensor_cores() -> None:
    half = replace(PLAIN, precision="half")
    for card in ACCELERATORS.values():
        assert usable_tflops(half, card) >= usable_tflops(PLAIN, card)
    assert usable_tflops(half, ACCELERATORS["P100"]) == usable_tflops(PLAIN, ACCELERATORS["P100"])


@given(workloads, cards, batches, counts, counts, st.tuples(faster, faster, faster, faster, faster))
def test_a_faster_gpu_is_never_slower(
    workload: Workload, card: Accelerator, batch: int, gpus: int, nodes: int, factors: tuple[float, ...]
) -> None:
    better = replace(
        card,
        fp32_tflops=card.fp32_tflops * factors[0],
        tf32_tflops=card.tf32_tflops * factors[1],
        half_tflops=card.half_tflops * factors[2],
        bandwidth_gb_s=card.bandwidth_gb_s * factors[3],
        link_gb_s=card.link_gb_s * factors[4],
    )
    nodes = min(nodes, gpus)
    before, after = (step_seconds(workload, each, batch, gpus, nodes) for each in (card, better))
    assert after <= before * (1 + 1e-12)


@given(workloads, cards, batches, counts, st.floats(0.1, 100.0))
def test_more_nodes_are_never_faster(workload: Workload, card: Accelerator, batch: int, gpus: int, between: float) -> None:
    seconds = [step_seconds(workload, card, batch, gpus, nodes, inter_node_gb_s=between) for nodes in range(1, min(gpus, 4) + 1)]
    assert seconds == sorted(seconds)


@given(workloads, cards, batches, batches, counts)
def test_a_larger_batch_never_handles_fewer_examples(
    workload: Workload, card: Accelerator, first: int, second: int, gpus: int
) -> None:
    small, large = sorted((first, second))
    rates = [batch / step_seconds(workload, card, batch, gpus) for batch in (small, large)]
    assert rates[1] >= rates[0] * (1 - 1e-9)


@given(workloads, cards, batches, batches, counts)
def test_memory_grows_with_the_batch_and_says_what_fits(
    workload: Workload, card: Accelerator, first: int, second: int, gpus: int
) -> None:
    small, large = sorted((first, second))
    assert memory_gib(workload, small, gpus) <= memory_gib(workload, large, gpus)
    assert fits(workload, card, small, gpus) or not fits(workload, card, large, gpus)
    limit = roofline.USABLE_MEMORY * card.memory_gib * (1 + 1e-9)
    assert not fits(workload, card, large, gpus) or memory_gib(workload, large, gpus) <= limit


@given(workloads, cards, batches, counts)
def test_a_gang_is_never_faster_than_its_gpus(workload: Workload, card: Accelerator, batch: int, gpus: int) -> None:
    alone, gang = (step_seconds(replace(workload, sharded=False), card, batch, count) for count in (1, gpus))
    assert gang >= alone

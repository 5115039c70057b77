"""Gandiva: turns in slots, and the oracles of its specification that concern them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.beliefs.move_costs import MemoryCosts
from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.core.validate import validate
from rota.errors import OptionError
from rota.live.views import decode_view, encode_view
from rota.model.allocation import Assignment
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.trial import TrialVerdict
from rota.model.view import View
from rota.policies.gandiva import Gandiva
from rota.policies.slots import SlotMap
from rota.sim.engine import Engine
from rota.traces.trace import Trace


def engine(jobs: list[Arrival], **fields: Any) -> Engine:
    given = {"policy": "gandiva", "preset": "ideal", **fields}
    return prepare_study(make_study({"trace": Trace("made up", "", tuple(jobs)), **given})).engine(None)


def one_gpu(steps: float, at_s: float = 0.0, **fields: Any) -> Arrival:
    return Arrival(at_s, JobSpec(steps=steps, can_park=True, **fields))


def test_while_all_have_gpus_no_job_is_suspended_and_none_share() -> None:
    jobs = [Arrival(10.0 * i, JobSpec(gpus=gpus, steps=500.0, can_park=True)) for i, gpus in enumerate((1, 2, 4, 1, 1, 2))]
    run = engine(jobs, cluster="4x(4xV100)")
    record = run.run()
    assert not record.suspensions.any() and not record.migrations.any()
    assert not run.scheduler.state.beliefs.trials_begun
    assert np.allclose(record.finished_s - record.submitted_s, 500.0)


def test_two_jobs_on_one_gpu_take_turns_and_pay_for_the_switch() -> None:
    """Each gets (slice - cost) / two slices of its rate, and both see their first steps soon."""
    costs = MemoryCosts(park=0.05, first_park=0.05, resume=0.05)
    jobs = [one_gpu(2000.0, least_gib=10.0), one_gpu(2000.0, least_gib=10.0)]
    record = engine(jobs, cluster="1xV100", memory=costs).run()
    switch = 1.0
    share = (60.0 - switch) / 120.0
    assert record.finished_s.max() == pytest.approx(4000.0 * 60.0 / (60.0 - switch), rel=0.02)
    assert record.finished_s.min() >= 2000.0 / share * 0.96
    assert (record.feedback_s < 300.0).all(), "a hundred steps take two turns each, and the two are tried together once"
    assert record.suspensions.sum() == pytest.approx(record.finished_s.max() / 60.0, abs=3)


def test_a_turn_is_so_long_that_little_is_lost_by_switching() -> None:
    costs = MemoryCosts(park=0.3, first_park=0.3, resume=0.1)
    jobs = [one_gpu(5000.0, least_gib=10.0), one_gpu(5000.0, least_gib=10.0)]
    record = engine(jobs, cluster="1xV100", memory=costs).run()
    lost = record.finished_s.max() / 10_000.0 - 1.0
    assert lost < 0.025, "4 s for each switch are 2% of a turn of 240 s"
    assert (
        engine(jobs, cluster="1xV100", memory=costs, policy="gandiva:max_switch_fraction=0.5").run().finished_s.max()
        > 10_000.0 * 1.05
    )


PROFILES = ("light", "heavy", "bulky")
RATES = Rates(
    table={(name, "V100", 1): 1.0 for name in PROFILES},
    pairs={
        ("light", "light", "V100", 1): (0.9, 0.9),
        ("heavy", "light", "V100", 1): (0.8, 0.7),
        ("bulky", "light", "V100", 1): (0.3, 0.4),
        ("bulky", "heavy", "V100", 1): (0.4, 0.4),
        ("heavy", "heavy", "V100", 1): (0.45, 0.45),
        ("bulky", "bulky", "V100", 1): (0.4, 0.4),
    },
)


def colocation(jobs: list[Arrival], **fields: Any) -> Engine:
    """A run whose scheduler has not been told what pairs do."""
    made = engine(jobs, rates=RATES, **fields)
    made.scheduler.state.beliefs.rates = Rates(table=RATES.table)
    return made


def test_of_three_jobs_only_the_pair_that_gains_ends_packed() -> None:
    jobs = [one_gpu(4000.0, profile=name) for name in PROFILES]
    run = colocation(jobs, cluster="1xV100", memory=MemoryCosts(park=0.01, resume=0.01))
    record = run.run()
    known = run.scheduler.state.beliefs
    verdicts = {trial.pair[:2]: trial.verdict for trial in known.past_trials.values()}
    assert verdicts[("heavy", "light")] is TrialVerdict.KEPT
    assert {pair for pair, verdict in verdicts.items() if verdict is TrialVerdict.KEPT} == {("heavy", "light")}
    assert known.trials_begun <= 3, "a pair is tried once, and what was seen is remembered"
    assert all(trial.ended_s - trial.begun_s <= 3 * 60.0 + 30.0 for trial in known.past_trials.values()), (
        "a bad pair costs little more than the time that it takes to settle"
    )
    assert record.finished_s.max() < 12_000.0, "together they are done earlier than one after the other"


def test_memory_decides_who_fits_beside_whom() -> None:
    jobs = [one_gpu(2000.0, profile="light", gpu_gib=gib) for gib in (10.0, 10.0)]
    run = colocation(jobs, cluster="1xV100")
    run.run()
    assert not run.scheduler.state.beliefs.trials_begun, "two of 10 GiB do not fit into 16"
    small = colocation([one_gpu(2000.0, profile="light", gpu_gib=4.0) for _ in range(2)], cluster="1xV100")
    small.run()
    assert small.scheduler.state.beliefs.trials_begun == 1


@pytest.mark.slow
def test_jobs_of_one_size_share_servers_and_others_go_elsewhere() -> None:
    """A job takes turns only on a server for its size."""
    jobs = [
        Arrival(float(i), JobSpec(gpus=gpus, steps=5000.0, can_park=True)) for i, gpus in enumerate([2, 2, 1, 1, 1, 1, 1, 2, 2])
    ]
    run = engine(jobs, cluster="2x(4xV100)", tactics="", policy="gandiva")
    step = run.scheduler.step

    def checked(now_s: float, events: Any) -> Any:
        commands = step(now_s, events)
        validate(run.scheduler.state)
        answer = run.scheduler.state.cycle.answer
        if answer is not None and now_s < 400.0:
            seating = answer.allocation.memory
            sizes: dict[int, set[int]] = {}
            for gpus, foreign in zip(seating.gpus, seating.foreign, strict=True):
                if not foreign:
                    sizes.setdefault(gpus[0] // 4, set()).add(len(gpus))
            assert all(len(each) == 1 for each in sizes.values())
        return commands

    run.scheduler.step = checked  # type: ignore[method-assign]
    record = run.run()
    assert np.isfinite(record.finished_s).all()


def test_a_size_without_servers_gets_some_in_the_end() -> None:
    """Eight jobs of one GPU keep the only server busy for long; one of eight GPUs has its turns all the same."""
    jobs = [one_gpu(20_000.0) for _ in range(8)] + [Arrival(1.0, JobSpec(gpus=8, steps=200.0, can_park=True))]
    record = engine(jobs, cluster="8xV100").run()
    assert record.finished_s[-1] < 2_000.0 and np.isfinite(record.finished_s).all()


def test_the_order_in_which_servers_are_chosen() -> None:
    servers = SlotMap(Cluster.parse("3x(4xV100)"))
    first = servers.open(2, 0, 0, 0.0)
    second = servers.open(2, 0, 0, 0.0)
    assert first is not None and second is not None and second.gpus == (2, 3), "a server for its size that has room"
    single = servers.open(1, 0, 0, 0.0)
    assert single is not None and single.gpus == (4,), "else one that is for any size"
    servers.open(4, 0, 0, 0.0)
    foreign = servers.open(2, 0, 0, 0.0)
    assert foreign is not None and foreign.foreign and foreign.gpus == (5, 6), "else wherever GPUs are free"
    assert servers.open(2, 0, 0, 0.0) is None
    for slot in (first, second):
        slot.jobs.append(1)
    foreign.jobs.clear()
    assert servers.shortest(2, 0) in (first, second), "no job takes turns on a server of another size"


def test_absurd_slices_are_refused() -> None:
    with pytest.raises(OptionError, match="10 s or more"):
        Gandiva(slice_seconds=5.0)
    with pytest.raises(OptionError, match="between 0 and 1"):
        Gandiva(max_switch_fraction=0.0)


def test_a_wide_job_gets_servers_where_nodes_differ_in_size() -> None:
    jobs = [one_gpu(3000.0, at_s=float(i)) for i in range(16)] + [Arrival(20.0, JobSpec(gpus=8, steps=100.0, can_park=True))]
    record = engine(jobs, cluster="2x(4xV100) + 1x(8xV100)").run()
    assert np.isfinite(record.finished_s).all() and record.finished_s[-1] < 3000.0


@pytest.mark.slow
def test_a_server_goes_to_another_size_within_its_pool() -> None:
    sizes = [(2, "V100"), *[(1, "V100")] * 5, *[(2, "V100")] * 8, *[(2, "P100")] * 12]
    jobs = [
        Arrival(float(i), JobSpec(gpus=g, steps=2500.0, can_park=True, accelerators=(kind,))) for i, (g, kind) in enumerate(sizes)
    ]
    assert np.isfinite(engine(jobs, cluster="3x(4xV100) + 1x(2xP100)").run().finished_s).all()


def test_short_jobs_that_keep_coming_do_not_keep_a_wide_one_out() -> None:
    jobs = [one_gpu(300.0, at_s=40.0 * i) for i in range(200)]
    jobs.append(Arrival(400.5, JobSpec(gpus=4, steps=100.0, can_park=True)))
    record = engine(sorted(jobs), cluster="2x(4xV100)").run()
    wide = int(np.argmax(record.gpus))
    assert record.finished_s[wide] < 3000.0, "the last of the others comes at 7,960 s"


def test_a_pair_is_made_when_the_turn_passes() -> None:
    """Nothing else happens between turns: two that gain share the GPU all the same, and so do two of three."""
    two = colocation([one_gpu(1000.0, at_s=at_s, profile="light") for at_s in (0.0, 100.0)], cluster="1xV100").run()
    assert two.finished_s.max() < 1400.0
    three = colocation([one_gpu(1000.0, profile="light") for _ in range(3)], cluster="1xV100").run()
    assert three.finished_s.max() < 2300.0


def test_a_newcomer_has_its_first_turn_soon() -> None:
    jobs = [one_gpu(5000.0) for _ in range(5)] + [one_gpu(50.0, at_s=700.0)]
    record = engine(jobs, cluster="1xV100", tactics="none").run()
    assert record.finished_s[-1] - 700.0 < 4 * 60.0


# Moves ---------------------------------------------------------------------------------------------------------------

SPLIT: dict[str, Any] = {"cluster": "2x(4xV100)", "spread_penalty": 1.5, "preset": None}
"""Jobs that span nodes take half as long again."""
CHEAP = {"launch_seconds": 0.5, "checkpoint_seconds": 0.5, "restore_seconds": 0.5}
WITHOUT_MOVES = "pack:min_gain=0,grow"


def half_empty() -> list[Arrival]:
    """Four of eight jobs of one GPU end, so that each of two servers has two jobs and two free GPUs; then a job of four comes."""
    ends = [20_000.0, 20_000.0, 300.0, 300.0] * 2
    return [Arrival(0.0, JobSpec(steps=steps)) for steps in ends] + [Arrival(400.0, JobSpec(gpus=4, steps=1000.0))]


def next_to_a_server_that_frees_up() -> list[Arrival]:
    """The job of four GPUs spans servers until those of one end."""
    sizes = [(2, 1000.0), (1, 900.0), (1, 20_000.0)]
    return [
        *(Arrival(0.0, JobSpec(gpus=gpus, steps=steps)) for gpus, steps in sizes),
        Arrival(1.0, JobSpec(gpus=4, steps=5000.0)),
    ]


def test_oracle_4_a_split_job_comes_together_once_a_server_is_free() -> None:
    without = engine(next_to_a_server_that_frees_up(), tactics=WITHOUT_MOVES, **SPLIT, **CHEAP).run()
    found = engine(next_to_a_server_that_frees_up(), **SPLIT, **CHEAP).run()
    assert without.migrations.tolist() == [0, 0, 0, 0] and found.migrations.tolist() == [0, 0, 0, 1]
    first, second = [number for number, job in enumerate(found.gpu_intervals.job.tolist()) if job == 3]
    freed_s = found.finished_s[0]
    assert freed_s <= found.gpu_intervals.end_s[first] <= freed_s + 60.0, "within one loop"
    assert found.gpu_intervals.end_s[second] == found.finished_s[3], "and it never migrates back"
    # 1.5 s lost, and every step after that takes two thirds of the time.
    assert found.finished_s[3] == pytest.approx(freed_s + 1.5 + 5000.0 - (freed_s - 1.5) / 1.5, abs=1.0)


def test_jobs_move_aside_for_one_that_would_span_servers() -> None:
    without = engine(half_empty(), tactics=WITHOUT_MOVES, **SPLIT, **CHEAP).run()
    found = engine(half_empty(), **SPLIT, **CHEAP).run()
    assert without.finished_s[-1] == pytest.approx(1900.5) and not without.migrations.any()
    assert found.migrations.sum() == 2, "the fewest moves"
    assert found.finished_s[-1] == pytest.approx(400.0 + 1000.0 + 1.0)
    assert found.suspensions.sum() == 2, "no job moves again"


def test_a_gang_that_waits_for_a_place_starts_because_others_move() -> None:
    """Where jobs wait rather than span servers, turns on servers of other sizes come to it late without moves."""
    fields: dict[str, Any] = {"wait_for_locality": True, **SPLIT, **CHEAP}
    without = engine(half_empty(), tactics="none", **fields).run()
    found = engine(half_empty(), tactics="migrate,defragment", **fields).run()
    assert without.first_run_s[-1] > 1000.0, "it gets a server once its patience is over"
    assert found.first_run_s[-1] == pytest.approx(401.0) and found.migrations.sum() == 2


def test_a_gang_that_waits_for_a_place_leaves_what_is_free_to_others() -> None:
    jobs = [*half_empty(), *(one_gpu(100.0, at_s=450.0) for _ in range(4))]
    found = engine(jobs, tactics="none", wait_for_locality=True, **SPLIT, **CHEAP).run()
    assert (found.finished_s[9:] < 450.0 + 100.0 + 121.0).all(), "though the gang came before them"


def test_a_job_goes_to_a_faster_type_once_no_other_job_wants_it() -> None:
    jobs = [Arrival(0.0, JobSpec(gpus=2, steps=1000.0)), Arrival(1.0, JobSpec(gpus=2, steps=8000.0))]
    cluster = "1x(2xV100) + 1x(2xK80)"
    without = engine(jobs, cluster=cluster, preset=None, tactics=WITHOUT_MOVES).run()
    found = engine(jobs, cluster=cluster, preset=None).run()
    assert found.migrations.tolist() == [0, 1] and found.finished_s[1] < without.finished_s[1] / 2


def test_a_job_that_shares_a_slot_takes_free_gpus_of_another_type() -> None:
    """Two take turns on the V100 until the P100 is free: half the time on a V100 is less than all of it there."""
    rates = Rates(table={("", "V100", 1): 1.0, ("", "P100", 1): 0.7})
    jobs = [
        one_gpu(20_000.0, accelerators=("V100",)),
        one_gpu(300.0, accelerators=("P100",)),
        one_gpu(2000.0, at_s=1.0, accelerators=("P100", "V100")),
    ]
    record = engine(jobs, cluster="1xV100 + 1xP100", rates=rates, tactics="none").run()
    assert record.finished_s[2] < 300.0 / 0.7 + 2000.0 / 0.7 + 1.0
    assert record.suspensions.sum() <= 10, "after that, no turns are left to take"


def test_where_spanning_servers_costs_nothing_no_job_moves() -> None:
    for jobs in (half_empty(), next_to_a_server_that_frees_up()):
        assert not engine(jobs, cluster="2x(4xV100)").run().migrations.any()


def test_a_slot_goes_where_its_job_was_moved() -> None:
    """The job that sleeps beside it stays, or goes along if its GPUs were given to another."""
    for taken in (False, True):
        servers = SlotMap(Cluster.parse("3x(2xV100)"))
        slot = servers.open(2, 0, 0, 0.0)
        assert slot is not None and slot.gpus == (0, 1)
        slot.jobs += [7, 8]
        held = {7: (2, 3)} | ({9: (0, 1)} if taken else {})
        servers.follow(held, 5)
        where = {job: each.gpus for each in servers.slots for job in each.jobs}
        assert where == ({7: (2, 3), 8: (2, 3), 9: (0, 1)} if taken else {7: (2, 3), 8: (0, 1)})
        assert not any(each.foreign for each in servers.slots), "whole servers that were free are for its size"


def test_no_job_goes_along_to_a_server_of_another_size() -> None:
    servers = SlotMap(Cluster.parse("2x(4xV100)"))
    two, one = servers.open(2, 0, 0, 0.0), servers.open(1, 0, 0, 0.0)
    assert two is not None and one is not None and one.gpus == (4,)
    two.jobs += [7, 8]
    one.jobs.append(1)
    servers.follow({7: (6, 7), 9: (0, 1), 1: (4,)}, 5)
    assert {job for slot in servers.slots for job in slot.jobs} == {1, 7, 9}, "8 looks for another slot"
    assert {slot.gpus: slot.foreign for slot in servers.slots} == {(4,): False, (6, 7): True, (0, 1): False}


@given(st.data())
def test_slots_never_overlap_wherever_jobs_are_moved(data: st.DataObject) -> None:
    cluster = Cluster.parse("3x(4xV100)")
    servers = SlotMap(cluster)
    for job, width in enumerate(data.draw(st.lists(st.sampled_from([1, 2, 4]), max_size=8))):
        slot = servers.open(width, 0, 0, 0.0) or servers.shortest(width, 0)
        if slot is not None:
            slot.jobs.append(job)
    width_of = {job: slot.width for slot in servers.slots for job in slot.jobs}
    free = data.draw(st.permutations(range(cluster.gpus)))
    held: dict[int, tuple[int, ...]] = {}
    for job in data.draw(st.permutations(sorted(width_of))):
        if len(free) >= width_of[job] and data.draw(st.booleans()):
            held[job], free = tuple(sorted(free[: width_of[job]])), free[width_of[job] :]
    servers.follow(held, 1)
    seats = [gpu for slot in servers.slots for gpu in slot.gpus]
    assert len(seats) == len(set(seats)) and not servers.free[seats].any()
    assert servers.free.sum() == cluster.gpus - len(seats)
    assert all(slot.jobs for slot in servers.slots)
    where = {job: slot.gpus for slot in servers.slots for job in slot.jobs}
    assert len(where) == sum(len(slot.jobs) for slot in servers.slots), "no job sits twice"
    assert all(where[job] == gpus for job, gpus in held.items())


def test_in_another_process_it_sees_where_its_jobs_were_moved() -> None:
    class Elsewhere(Gandiva):
        def allocate(self, view: View) -> Assignment:
            asked = json.loads(json.dumps(encode_view(replace(view, memory=None))))
            return super().allocate(decode_view(asked, view.memory))

    keywords: dict[str, Any] = {**SPLIT, **CHEAP, "tactics": Gandiva.needs.tactics}
    here, there = (engine(half_empty(), policy=policy, **keywords).run() for policy in (Gandiva(), Elsewhere()))
    assert there.migrations.sum() == 2 and there.finished_s.tolist() == here.finished_s.tolist()


def test_while_no_jobs_share_a_slot_servers_keep_their_size() -> None:
    """Jobs of one GPU are left alone on three servers, those of two fill theirs: still none of them needs another server."""
    jobs = [one_gpu(100.0 if i % 4 else 5000.0, at_s=float(i)) for i in range(12)]
    jobs += [Arrival(20.0, JobSpec(gpus=2, steps=5000.0, can_park=True)) for _ in range(2)]
    record = engine([*jobs, one_gpu(500.0, at_s=300.0)], cluster="4x(4xV100)", policy="gandiva:balance_seconds=60").run()
    assert not record.suspensions.any() and not record.migrations.any()


@pytest.mark.slow
def test_an_elastic_job_that_joined_a_larger_one_has_its_turns_at_its_own_size() -> None:
    """The tactic pack lets a job of one GPU join one of two; afterwards it was asked for at a size that it never asked for."""
    result = rota.simulate("demo", policy="gandiva", first=80, elastic="batch")
    assert not np.isnan(result.record.finished_s).any()


def elastic(at_s: float = 0.0) -> Arrival:
    """Asks for 16 GPUs, and accepts fewer."""
    sizes = {"gpus": 16, "gpu_counts": (1, 2, 4, 8, 16), "batch_size": 512, "batch_sizes": (32, 64, 128, 256, 512)}
    return Arrival(at_s, JobSpec(steps=2000.0, can_resize=True, profile="ones/vgg16/global512", **sizes))


def test_a_job_whose_size_no_pool_has_runs_with_the_nearest_that_it_accepts() -> None:
    run = engine([elastic(), elastic(), elastic()], cluster="8xV100 + 4xP100", tactics="none")
    record = run.run()
    assert record.ended == 3
    widths = {
        len(record.gpu_intervals.gpus[record.gpu_intervals.first[i] : record.gpu_intervals.first[i + 1]])
        for i in range(len(record.gpu_intervals))
    }
    assert widths == {8, 4}, "as many GPUs as each pool has"


@pytest.mark.parametrize(
    "events", ["  - {at: 100s, join: {accelerator: V100, gpus: 8, name: b}}\n", "  - {at: 100s, leave: a2}\n"]
)
def test_such_a_job_gets_another_size_when_the_cluster_changes(tmp_path: Path, events: str) -> None:
    site = tmp_path / "cluster.yaml"
    nodes = "nodes:\n  - {count: 1, accelerator: V100, gpus: 8, name: a1}\n"
    nodes += "  - {count: 1, accelerator: V100, gpus: 8, name: a2}\n" if "leave" in events else ""
    site.write_text(f"{nodes}events:\n{events}")
    assert engine([elastic(10.0 * i) for i in range(4)], cluster=site).run().ended == 4

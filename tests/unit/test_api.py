"""The clusters and profiles that `rota.simulate` accepts."""

from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import AssumptionWarning, ClusterError
from rota.traces.trace import Trace

GANG = Trace.of("gang", "test", [rota.traces.trace.Arrival(0.0, rota.JobSpec(gpus=8, steps=1000, profile="vgg16/bs64"))])


def jct(cluster: str, **options: object) -> float:
    found = rota.simulate(GANG, cluster=cluster, launch_seconds=0, **options)  # type: ignore[arg-type]
    return found.summary.mean_jct_seconds or 0.0


def cluster(folder: Path, extra: str = "", gpus: int = 4) -> str:
    path = folder / "cluster.yaml"
    path.write_text(f"nodes: [{{count: {8 // gpus}, accelerator: V100, gpus: {gpus}}}]\n{extra}")
    return str(path)


def test_links_decide_how_fast_gangs_are(tmp_path: Path) -> None:
    usual = jct(cluster(tmp_path))
    assert jct(cluster(tmp_path, "links: {between: 0.5}")) > 1.5 * usual, "a slow network"
    assert jct(cluster(tmp_path, "links: {between: 0.5}", gpus=8)) == usual, "one node needs no network"
    assert jct(cluster(tmp_path, "links: {inside: {V100: 0.5}}", gpus=8)) > 1.5 * usual, "but a link inside"
    assert jct(cluster(tmp_path, "links: {between: 0.5}"), spread_penalty=1.0) == jct(cluster(tmp_path, gpus=8)), "the flag wins"


def test_cost_is_gpu_hours_times_prices(tmp_path: Path) -> None:
    path = cluster(tmp_path, "prices: {V100: 2}", gpus=8)
    found = rota.simulate(GANG, cluster=path, launch_seconds=0)
    hours = (found.summary.mean_jct_seconds or 0.0) * 8 / 3600
    assert found.summary.cost_dollars == pytest.approx(2 * hours)
    listed = rota.simulate(GANG, cluster="8xV100", launch_seconds=0)
    assert listed.summary.cost_dollars == pytest.approx(3.06 * hours)
    with pytest.warns(AssumptionWarning):
        assert rota.simulate("demo", cluster="24xZ9").summary.cost_dollars is None, "nobody knows what a Z9 costs"


def test_measured_rates_win_and_the_catalogue_fills_in(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("profile,accelerator,gpus,steps_per_second\nvgg16/bs64,V100,8,10\n")
    assert jct("8xV100", profile=table) == pytest.approx(100.0)
    table.write_text("profile,accelerator,gpus,steps_per_second\nother,V100,8,10\n")
    assert jct("8xV100", profile=table) == jct("8xV100")


def test_the_ideal_machine_runs_everything_like_a_v100() -> None:
    assert jct("8xK80", preset="ideal") == jct("8xV100", preset="ideal") == jct("8xV100", checkpoint_seconds=0)
    assert jct("8xK80") > 2 * jct("8xV100")


def test_notes_of_a_trace_come_along(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    path.write_text(f"{header}\np1,1,1,2,500,,LS,Running,0,100,0\np2,1,1,0,0,,LS,Running,0,100,0\n")
    found = rota.simulate(path, cluster="2xT4")
    assert found.params["skipped"] == 1
    assert found.params["notes"] == ["1 job requested fractions of several GPUs and got whole ones"]


TPU = "TPU9 is an unknown accelerator type; assuming the speed of a V100."


def test_a_type_nobody_knows_is_warned_of_and_printed_with_the_result() -> None:
    with pytest.warns(AssumptionWarning) as heard:
        found = rota.simulate("demo", cluster="24xTPU9")
    assert [str(each.message) for each in heard] == [TPU]
    assert heard[0].filename == __file__, "the line that asked for it"
    assert found.notes == found.params["notes"] == [TPU]
    assert str(found).splitlines()[-1] == repr(found).splitlines()[-1] == f"note: {TPU}"
    assert TPU in found._repr_html_()


@pytest.mark.slow
def test_a_comparison_warns_once_and_prints_its_notes() -> None:
    with pytest.warns(AssumptionWarning) as heard:
        found = rota.compare(["fifo", "srsf"], cluster="24xTPU9", seeds=2)
    assert [str(each.message) for each in heard] == [TPU]
    assert found.notes == [TPU] and str(found).splitlines()[-1] == f"note: {TPU}"
    assert TPU in found._repr_html_()


@pytest.mark.slow
def test_a_sweep_warns_too(tmp_path: Path) -> None:
    with pytest.warns(AssumptionWarning) as heard:
        found = rota.sweep(["fifo"], trace="synthetic:jobs=5", cluster=["24xTPU9", "24xV100"], out=tmp_path / "out")
    assert [str(each.message) for each in heard] == [TPU]
    assert found.notes == [TPU] and str(found).splitlines()[-1] == f"note: {TPU}"


@pytest.mark.parametrize(
    ("typed", "near"),
    [("H1000", "H100"), ("V10", "A10, V100"), ("RTX-4090", "RTX4090"), ("RTX409", "RTX4090"), ("L4OS", "L40S"), ("P010", "P100")],
)
def test_a_type_that_looks_like_a_typing_error_is_one(typed: str, near: str) -> None:
    with pytest.raises(ClusterError, match=f"'{typed}' — is an unknown accelerator type. Closest: {near}"):
        rota.simulate("demo", cluster=f"16xV100 + 8x{typed}")


def test_a_type_of_ones_own_has_measured_rates(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("profile,accelerator,gpus,steps_per_second\nvgg16/bs64,H1000,8,10\n")
    found = rota.simulate(GANG, cluster="8xH1000", profile=table, launch_seconds=0)
    assert found.summary.mean_jct_seconds == pytest.approx(100.0) and found.notes == []


@pytest.mark.parametrize("kind", ["A40", "H20", "GH200", "MI325X", "P4"])
def test_a_real_type_without_figures_is_no_typing_error(kind: str) -> None:
    with pytest.warns(AssumptionWarning, match=f"{kind} is an unknown accelerator type; assuming the speed of a V100"):
        assert len(rota.simulate("demo", cluster=f"24x{kind}").notes) == 1


def test_where_all_types_run_alike_their_names_do_not_matter() -> None:
    assert rota.simulate("demo", cluster="24xH1000", preset="ideal").notes == []


def test_a_profile_nobody_knows_is_warned_of() -> None:
    odd = Trace.of("odd", "test", [rota.traces.trace.Arrival(0.0, rota.JobSpec(steps=10, profile="bart/bs12"))])
    with pytest.warns(AssumptionWarning, match="1 job has an unknown profile"):
        (note,) = rota.simulate(odd, cluster="1xV100").notes
    assert "'bart/bs12'" in note
    assert rota.simulate("demo", cluster="24xV100").notes == []


def test_a_count_nobody_measured_scales_as_the_model_does(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("profile,accelerator,gpus,steps_per_second\nvgg16/bs64,V100,1,1.1\n")
    assert jct("8xV100", profile=table) == pytest.approx(jct("8xV100"), rel=0.1), "as many steps, each eight times as large"


@pytest.mark.slow
def test_jobs_save_now_and_then_where_nodes_fail() -> None:
    options = {"cluster": "6x(4xV100)", "node_mtbf_seconds": 20_000.0, "policy": "fifo:backfill=true"}
    usual = rota.simulate("demo", **options)  # type: ignore[arg-type]
    never = rota.simulate("demo", **options, checkpoint_every_seconds=float("inf"))  # type: ignore[arg-type]
    assert 0 < usual.summary.lost_gpu_seconds < never.summary.lost_gpu_seconds
    assert len(usual.record.outages) > 5


@pytest.mark.slow
@pytest.mark.nightly
def test_a_hopeless_cluster_is_given_up() -> None:
    with pytest.raises(rota.errors.SimulationStalled, match="none can end"):
        rota.simulate("demo", cluster="24x(1xV100)", node_mtbf_seconds=3.0, node_repair_seconds=1.0, first=1)


@pytest.mark.parametrize(
    "given,words",
    [
        ({"cluster": {"V100": 8}}, "not a text, a path or a Cluster"),
        ({"policy": rota.Ranking}, "is a class"),
    ],
)
def test_values_of_the_wrong_kind(given: dict[str, object], words: str) -> None:
    with pytest.raises(rota.RotaError, match=words):
        rota.simulate("demo", **given)  # type: ignore[arg-type]


def test_filters_may_be_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration,tenant\n0,1,60,a\n0,1,60,b\n")
    assert rota.simulate(path, cluster="1xV100", where={"tenant": "b"}).summary.jobs == 1


def test_the_scheduler_knows_that_a_gang_must_span_nodes(tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    path.write_text("nodes: [{count: 4, accelerator: V100, gpus: 2}, {accelerator: P100, gpus: 8}]\nlinks: {between: 0.1}\n")
    found = rota.simulate(GANG, policy="srsf", cluster=str(path))
    alone = rota.simulate(GANG, policy="srsf", cluster="1x(8xP100)")
    assert found.summary.mean_jct_seconds == pytest.approx(alone.summary.mean_jct_seconds), "P100s in one node, not V100s in four"


def test_a_table_that_the_model_cannot_scale(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("profile,accelerator,gpus,nodes,steps_per_second\nllama7b,A100,2,1,0.5\nllama7b,A100,8,2,2\n")
    job = Trace.of("one", "test", [rota.traces.trace.Arrival(0.0, rota.JobSpec(gpus=2, steps=10, profile="llama7b"))])
    assert (rota.simulate(job, cluster="2x(1xA100)", profile=table).summary.mean_jct_seconds or 0) > 0


def test_params_say_what_was_asked_for() -> None:
    found = rota.simulate("demo", first=20, launch_seconds=60, spread_penalty=2.0, drop_oversized=True)
    assert (found.params["first"], found.params["drop_oversized"]) == (20, True)
    assert found.params["physics"] == {"launch_seconds": 60, "spread_penalty": 2.0}


@pytest.mark.parametrize(
    "given", [{"spread_penalty": float("inf")}, {"checkpoint_seconds": float("inf")}, {"restore_seconds": float("nan")}]
)
def test_costs_are_finite(given: dict[str, float]) -> None:
    with pytest.raises(rota.RotaError, match=r"must be from [01] to "):
        rota.simulate("demo", **given)  # type: ignore[arg-type]


def test_placers_beside_policies_that_have_theirs() -> None:
    with pytest.raises(rota.RotaError, match="No placer 'nope'"):
        rota.compare(["fifo"], placers=["nope"])
    with pytest.raises(rota.RotaError, match="names its own placer"):
        rota.compare(["fifo+packed"], placers=["spread"])


def test_names_of_the_contract() -> None:
    trace = rota.traces.synthetic(jobs=30, seed=1)
    found = rota.simulate(trace, policy="las", cluster="24xV100")
    assert found.rounds == found.summary.plans and found.rounds


@pytest.mark.slow
def test_processes_of_their_own_give_the_same_results() -> None:
    fields: dict[str, Any] = {"trace": "synthetic:jobs=12", "cluster": "8xV100", "seeds": 2}
    done: list[str] = []
    apart = rota.compare(["fifo", "srsf"], workers=2, progress=lambda label, *_: done.append(label), **fields)
    here = rota.compare(["fifo", "srsf"], **fields)
    assert str(apart) == str(here) and sorted(done) == ["fifo", "fifo", "srsf", "srsf"]
    with pytest.raises(rota.errors.UnknownNameError, match="No policy 'fiffo'") as caught:
        rota.compare(["fifo", "fiffo"], workers=2, **fields)
    assert caught.value.hint and caught.value.name == "fiffo"


@pytest.mark.parametrize("fields", [{"workers": 0}, {"seeds": 0}, {"seeds": 10_001}])
def test_how_many_times_and_in_how_many_processes(fields: dict[str, Any]) -> None:
    with pytest.raises(rota.errors.OptionError, match=next(iter(fields))):
        rota.compare(["fifo"], trace="synthetic:jobs=3", **fields)

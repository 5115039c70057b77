"""Parking on a real GPU: three unmodified PyTorch jobs of 2, 20 and 40 GiB take turns on one GPU, and what else needs a real one.

    python -m benchmarks.park_gpu --json park.json
    python -m benchmarks.park_gpu --phases packing,allocator --json pairs.json

Needs one NVIDIA GPU with 48 GiB or more, PyTorch with CUDA and torch_memory_saver; no network. All phases together take about
twenty minutes (`--deadline-seconds`). Every phase stands for itself: what goes wrong in one is told in its `error`, and the
others go on; only `turns` and `daemon_killed` compare with what `references` found. Everything that it started has ended when it
returns.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_bench import (
    ENDLESS,
    Bench,
    end_all_of,
    gpu_mib,
    host_mib,
    nodes_json,
    order_for,
    result_of,
    step_times,
)
from benchmarks.gpu_damage import damage
from benchmarks.gpu_node import on_a_node
from benchmarks.gpu_pairs import allocator, colocation
from benchmarks.gpu_resumed import resumed
from rota.agent.machine import AttemptStatus
from rota.agent.pages_library import with_pages_library
from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment
from rota.park.park_method import choose_park_method
from rota.wire.rows import JobRow
from tests.live.agent.bench import Machine

SIZES = (2, 20, 40)
PARKED_SECONDS = 1.0
"""How long a job stays parked, in seconds. Its pages are registered in that time; no scheduler has shorter turns."""


def switches(times: dict[str, list[float]], *, endless: bool = False) -> dict[str, Any]:
    """From the moments of all steps: what lies between the last step of one job and the first of the next, less the time of a
    step, while every job has begun and none has ended. The first parking of each job is told apart. `endless`: none ends."""
    usual = {name: statistics.median([b - a for a, b in itertools.pairwise(each)]) for name, each in times.items()}
    every = sorted((moment, name) for name, each in times.items() for moment in each)
    from_s, last = max(each[0] for each in times.values()), [each[-1] for each in times.values()]
    until_s = max(last) if endless else min(last)
    first, later, seen, lost = [], [], set(), 0.0
    for (left_s, left), (came_s, came) in itertools.pairwise(every):
        if left == came:
            continue
        gap = max(came_s - left_s - usual[came], 0.0)
        known = left in seen
        seen.add(left)
        if left_s < from_s or came_s > until_s:
            continue
        (later if known else first).append({"from": left, "to": came, "seconds": round(gap, 3)})
        lost += gap if known else 0.0
    gaps = [each["seconds"] for each in later]
    shared = sum(each["seconds"] for each in first)
    return {
        "step_seconds": {name: round(each, 4) for name, each in usual.items()},
        "first_switches": first,
        "later_switches": later,
        "median_switch_seconds": statistics.median(gaps) if gaps else None,
        "longest_switch_seconds": max(gaps, default=None),
        "window_seconds": round(until_s - from_s, 1),
        "gpu_time_lost": round(lost / (until_s - from_s - shared), 4) if until_s - from_s > shared else None,
        "gpu_time_lost_with_first": round((lost + shared) / (until_s - from_s), 4) if until_s > from_s else None,
        "gpu_time_lost_at_60_s_turns": round(statistics.mean(gaps) / 60.0, 4) if gaps else None,
    }


# The phases.


def machine(bench: Bench) -> dict[str, Any]:
    import torch

    facts = with_pages_library(
        parking_facts(bench.command(2, 1, 0, "x"), bench.variables(), "/", wanted=True, gpus=1, real_gpus=not bench.rehearsal)
    )
    way, why = choose_park_method(facts)
    return {
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "library": facts.library,
        "library_path": list(facts.library_path),
        "way": way,
        "why": why,
        "gpu_mib_at_rest": gpu_mib(),
    }


def references(bench: Bench, seconds: float) -> dict[str, Any]:
    """All three at once, without Rota: what each comes to depends on nothing but its steps."""
    begin = time.monotonic()
    running = {}
    for gib in SIZES:
        with (bench.folder / f"reference-{gib}.log").open("wb") as log:
            run = bench.command(gib, 1_000_000_000, seconds, f"reference-{gib}")
            running[gib] = subprocess.Popen(run, stdout=log, stderr=subprocess.STDOUT, env=bench.variables())
            bench.plain.append(running[gib])
    for gib, process in running.items():
        process.wait(max(bench.left(), 1.0))
        text = (bench.folder / f"reference-{gib}.log").read_text(errors="replace")
        if not result_of(text):
            raise RuntimeError(f"the reference of {gib} GiB ended with {process.returncode}: {text[-500:]}")
        bench.results[gib] = result_of(text)
        bench.steps[gib] = int(result_of(text).split()[1])
    lines = (bench.folder / f"reference-{SIZES[0]}.log").read_text(errors="replace").splitlines()
    partial = [line.split() for line in lines if line.startswith("partial")]
    early = [words for words in partial if int(words[1]) <= bench.steps[SIZES[0]] / 2] or partial[:1]
    bench.partial = " ".join(["result", *early[-1][1:]]) if early else ""
    return {"seconds": round(time.monotonic() - begin, 1), "results": {str(gib): each for gib, each in bench.results.items()}}


def parking(row: JobRow) -> str:
    """Return the park method of a job and its reason."""
    return f"{row.park_method}: {row.park_reason}"


def turns(bench: Bench, slice_seconds: float) -> dict[str, Any]:
    """Three jobs under gandiva. Its turns follow from what switching costs, so it is told that any cost will do."""
    begin = time.monotonic()
    found: dict[str, Any] = {}
    bench.home = bench.folder / "home-turns"
    bench.up(f"gandiva:slice_seconds={slice_seconds:g},max_switch_fraction=0.99")
    try:
        jobs = {bench.submit(gib, f"job-{gib}"): gib for gib in SIZES}
        found["parking"] = {str(gib): parking(bench.rows()[job]) for job, gib in jobs.items()}
        problem = ""
        try:
            bench.until(lambda: all(row.ended for row in bench.rows().values()), "all three are done", 330.0, 1.0)
        except TimeoutError as error:
            problem = str(error)
        rows = bench.rows()
        found["jobs"] = {
            str(gib): {
                "phase": rows[job].phase,
                "suspensions": rows[job].suspensions,
                "lost_steps": rows[job].lost_steps,
                "parking": parking(rows[job]),
                "result": result_of(bench.log(job)),
                "exact": result_of(bench.log(job)) == bench.results.get(gib),
                "log_tail": "" if rows[job].phase == "finished" else bench.log(job)[-800:],
            }
            for job, gib in jobs.items()
        }
        times = {f"{gib} GiB": step_times(bench.folder / f"job-{gib}.steps") for gib in SIZES}
        with contextlib.suppress(ValueError, ZeroDivisionError, IndexError, statistics.StatisticsError):
            found |= switches(times)
        found["seconds"] = round(time.monotonic() - begin, 1)
        return found | ({"error": problem} if problem else {})
    finally:
        bench.down()


def long_turns(bench: Bench, policy: str, seconds: float) -> dict[str, Any]:
    """Three jobs under gandiva as it is, whose turns follow from what switching costs, for so long."""
    bench.home = bench.folder / "home-long-turns"
    bench.up(policy)
    try:
        bench.steps.clear()
        jobs = {bench.submit(gib, f"long-{gib}"): gib for gib in SIZES}
        end = time.monotonic() + min(seconds, bench.left() - 20.0)
        while time.monotonic() < end and not any(row.ended for row in bench.rows().values()):
            time.sleep(1.0)
        rows, nodes = bench.rows(), nodes_json(bench)
        found: dict[str, Any] = {
            "jobs": {
                str(gib): {
                    "phase": rows[job].phase,
                    "suspensions": rows[job].suspensions,
                    "lost_steps": rows[job].lost_steps,
                    "parking": parking(rows[job]),
                    "log_tail": "" if not rows[job].ended else bench.log(job)[-800:],
                }
                for job, gib in jobs.items()
            },
            "nodes": nodes,
        }
        return found | switches({f"{gib} GiB": step_times(bench.folder / f"long-{gib}.steps") for gib in SIZES}, endless=True)
    finally:
        bench.down()


def leaving(bench: Bench, gib: int) -> dict[str, Any]:
    """One job that saves and leaves by SIGTERM, and is launched again: until it is gone, and from there to its next step."""
    bench.home = bench.folder / f"home-leaving-{gib}"
    bench.home.mkdir()
    agent = Machine(bench.home, lambda: None)
    try:
        run = [*bench.command(gib, ENDLESS, 0.0, f"leaving-{gib}"), "save"]
        env = bench.variables() | {"CUDA_VISIBLE_DEVICES": "0", "PYTHONUNBUFFERED": "1"}

        def launch(attempt: int) -> None:
            agent.launch(order_for(bench, run, env, attempt=attempt, grace_seconds=120.0))
            bench.until(lambda: status(attempt).began_s is not None or status(attempt).state == "ended", "a step", 150.0, 0.02)
            if status(attempt).state == "ended":
                raise RuntimeError((bench.home / "logs" / "1.log").read_text(errors="replace")[-500:])

        def status(attempt: int) -> AttemptStatus:
            agent.poll()
            return next(each for each in agent.inventory() if each.attempt == attempt)

        launch(1)
        time.sleep(2.0)
        began = time.monotonic()
        agent.suspend(1, 1, 2)
        bench.until(lambda: status(1).state == "ended", "it has left", 150.0, 0.02)
        left = time.monotonic()
        launch(2)
        again = time.monotonic()
        return {
            "outcome": status(1).outcome,
            "leave_seconds": round(left - began, 2),
            "return_seconds": round(again - left, 2),
        }
    finally:
        end_all_of(bench, agent)


def daemon_killed(bench: Bench) -> dict[str, Any]:
    """Two jobs of 2 GiB. The daemon is killed with -9 while one is parked, and another one goes on with both."""
    bench.home = bench.folder / "home-killed"
    policy = "gandiva:slice_seconds=10,max_switch_fraction=0.99"
    bench.steps[2] = int(bench.partial.split()[1])
    bench.up(policy)
    try:
        jobs = [bench.submit(2, f"killed-{number}") for number in (1, 2)]
        bench.until(lambda: any(row.phase == "parked" for row in bench.rows().values()), "one is parked", 90.0, 0.2)
        bench.kill_daemon()
        time.sleep(2.0)
        bench.up(policy)
        after = {job: row.phase for job, row in bench.rows().items()}
        bench.until(lambda: all(row.ended for row in bench.rows().values()), "both are done", 150.0, 0.5)
        rows = bench.rows()
        return {
            "phases_after": sorted(after.values()),
            "finished": all(rows[job].phase == "finished" for job in jobs),
            "exact": all(result_of(bench.log(job)) == bench.partial for job in jobs),
            "lost_steps": sum(rows[job].lost_steps for job in jobs),
            "launches": [bench.log(job).count("(attempt ") for job in jobs],
        }
    finally:
        bench.down()


def many_parkings(bench: Bench, gib: int = 2, times: int = 50, *, way: str = "", ahead: bool = False) -> dict[str, Any]:
    """One job, parked again and again by its supervisor, without a policy. `way`: driver, or what is chosen for it. `ahead`:
    whether it gets host memory ready before."""
    bench.home = bench.folder / f"home-many-{gib}{way}{ahead}"
    bench.home.mkdir()
    agent = Machine(bench.home, lambda: None)
    before = gpu_mib()
    try:
        run, env = bench.command(gib, 1_000_000_000, 0.0, f"many-{gib}{way}"), bench.variables()
        facts = with_pages_library(parking_facts(run, env, "/", wanted=True, gpus=1, real_gpus=not bench.rehearsal))
        env |= {"CUDA_VISIBLE_DEVICES": "0", "PYTHONUNBUFFERED": "1"}
        env |= {"ROTA_PARK": way} if way else parking_environment(facts, env)
        agent.launch(order_for(bench, run, env))

        def status() -> AttemptStatus:
            agent.poll()
            return agent.inventory()[0]

        def reach(state: str) -> None:
            bench.until(lambda: status().state in (state, "ended"), state, 150.0, 0.005)
            if status().state != state:
                tail = (bench.home / "logs" / "1.log").read_text(errors="replace")[-500:]
                raise RuntimeError(f"it is {status().state}: {status().problem or status().parking_problem} {tail}")

        bench.until(lambda: status().steps_done > 20 or status().state == "ended", "its first steps", 120.0)
        reach("running")
        pid = json.loads((bench.home / "run/1/1/status.json").read_text())["pid"]
        park, wake, parked_mib, running_mib, host = [], [], [], [], []
        prepared = {}
        if ahead:
            begin, made, held = time.monotonic(), status().steps_done, host_mib(pid)["VmRSS"]
            bench.until(lambda: time.monotonic() >= begin + 10.0, "its usual rate", 20.0)
            begin, made = time.monotonic(), status().steps_done - made
            usual, made = made / 10.0, status().steps_done
            agent.prepare(1, 1)
            bench.until(lambda: host_mib(pid)["VmRSS"] >= held + 1024 * gib, "its host memory is ready", 200.0, 0.5)
            seconds = time.monotonic() - begin
            during = (status().steps_done - made) / seconds
            prepared = {
                "prepare_seconds": round(seconds, 1),
                "usual_steps_per_second": usual,
                "while_preparing": round(during, 2),
            }
        for number in range(times):
            began = time.monotonic()
            agent.park(1, 1, 2 + 2 * number)
            reach("parked")
            park.append(time.monotonic() - began)
            if number in (0, 1, 9, times - 1):
                parked_mib.append(gpu_mib())
                host.append(host_mib(pid))
            time.sleep(PARKED_SECONDS)
            began = time.monotonic()
            agent.resume(1, 1, 3 + 2 * number, 600.0)
            reach("running")
            wake.append(time.monotonic() - began)
            if number in (0, 1, 9, times - 1):
                running_mib.append(gpu_mib())
            made = status().steps_done
            bench.until(lambda made=made: status().steps_done > made, "a step", 30.0, 0.01)
        return {
            **prepared,
            "times": times,
            "first_park_seconds": round(park[0], 3),
            "park_seconds": round(statistics.median(park[1:]), 3),
            "longest_park_seconds": round(max(park[1:]), 3),
            "wake_seconds": round(statistics.median(wake), 3),
            "longest_wake_seconds": round(max(wake), 3),
            "moved_gib": round(status().parked_gib, 2),
            "gpu_mib_before": before,
            "gpu_mib_parked": parked_mib,
            "gpu_mib_running": running_mib,
            "host_mib_parked": host,
        }
    finally:
        end_all_of(bench, agent)


def phases(bench: Bench, args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    yield "machine", lambda: machine(bench)
    yield "references", lambda: references(bench, args.reference_seconds)
    yield "many_parkings", lambda: many_parkings(bench)
    yield "parkings_of_20_gib", lambda: many_parkings(bench, 20, 8)
    yield "parkings_of_40_gib", lambda: many_parkings(bench, 40, 5)
    yield "prepared_20_gib", lambda: many_parkings(bench, 20, 3, ahead=True)
    yield "damage", lambda: damage(bench)
    yield "turns", lambda: turns(bench, args.slice_seconds)
    yield "daemon_killed", lambda: daemon_killed(bench)
    yield "long_turns", lambda: long_turns(bench, args.policy, args.turns_seconds)
    yield "driver_2_gib", lambda: many_parkings(bench, 2, 3, way="driver")
    yield "driver_20_gib", lambda: many_parkings(bench, 20, 2, way="driver")
    yield "colocation", lambda: colocation(bench)
    yield "allocator", lambda: allocator(bench)
    yield "resumed", lambda: resumed(bench)
    yield "on_a_node", lambda: on_a_node(bench)
    yield "leaving_2_gib", lambda: leaving(bench, 2)
    yield "leaving_20_gib", lambda: leaving(bench, 20)


def show(found: dict[str, Any]) -> Iterator[str]:
    """A table for people."""
    for phase, values in found.items():
        yield ""
        yield phase
        for name, value in values.items():
            if name in ("later_switches", "first_switches"):
                value = ", ".join(f"{each['from']} to {each['to']} {each['seconds']} s" for each in value)
            if name == "jobs":
                for job, facts in value.items():
                    yield f"  {job + ' GiB':<28}" + ", ".join(f"{key} {facts[key]}" for key in facts if key != "log_tail")
                continue
            yield f"  {name:<28}{value}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", help="a file for the JSON object as well")
    parser.add_argument("--slice-seconds", type=float, default=10.0)
    parser.add_argument("--policy", default="gandiva:slice_seconds=30", help="of the phase long_turns")
    parser.add_argument("--turns-seconds", type=float, default=260.0, help="how long that takes")
    parser.add_argument("--reference-seconds", type=float, default=90.0)
    parser.add_argument("--deadline-seconds", type=float, default=1500.0)
    parser.add_argument(
        "--rehearse", action="store_true", help="small models on a pretend GPU: is the benchmark itself in order?"
    )
    parser.add_argument("--phases", default="", help="only these, with commas between them; default: all")
    args = parser.parse_args(words)
    wanted = set(filter(None, args.phases.split(",")))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="park-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), args.deadline_seconds, args.rehearse)
        try:
            for name, phase in phases(bench, args):
                if wanted and name not in wanted:
                    continue
                try:
                    found[name] = phase()
                except Exception as error:
                    found[name] = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
                if args.json:  # what is known so far
                    Path(args.json).write_text(json.dumps(found, indent=1))
                sys.stderr.write(f"{name}: {'error' if 'error' in found[name] else 'done'}, {bench.left():.0f} s left\n")
        finally:
            bench.close()
    text = json.dumps(found, indent=1)
    if args.json:
        Path(args.json).write_text(text)
    print(json.dumps(found))
    print("\n".join(show(found)))
    return int(any("error" in each for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())

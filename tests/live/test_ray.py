"""Rota on a real Ray cluster of several nodes on this machine, with real jobs."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from tests.live.harness import Site, until
from tests.live.ray_cluster import SETTINGS, RayCluster, end_supervisors
from tests.live.test_parking import PLAIN, check_exact
from tests.live.test_parking import submit as submit_script

PACKAGES = str(Path(rota.__file__).parents[1])

JOB = '''
"""Counts steps, saves each, and holds locks that show who runs at the same time."""
import fcntl, os, signal, sys, time
work, steps, pace = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
job, life, rank = os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"], os.environ["NODE_RANK"]
where = os.environ["ROTA_NODE"]
def note(name, text):
    with open(os.path.join(work, name), "a") as file:
        file.write(text + "\\n")
held = []
for name in [f"job-{job}-{rank}"] + [f"gpu-{where}-{gpu}" for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]:
    lock = open(os.path.join(work, name + ".lock"), "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        note("violations", f"{name} is held by another while job {job} attempt {life} starts")
        sys.exit(3)
    held.append(lock)
stop = False
def ask(*_):
    global stop
    stop = True
signal.signal(signal.SIGTERM, ask)
state = os.path.join(work, f"{job}.step")
n = int(open(state).read()) if os.path.exists(state) else 0
note(f"{job}.life", f"{life} {rank} {where} {n}")
while n < steps and not stop:
    time.sleep(pace)
    n += 1
    if rank == "0":
        with open(state + ".new", "w") as file:
            file.write(str(n))
        os.replace(state + ".new", state)
        print(f"step {n}/{steps}", flush=True)
sys.exit(0 if n >= steps else 75)
'''


class RaySite(Site):
    """A home whose jobs run on a Ray cluster."""

    def __init__(self, folder: Path, cluster: RayCluster, policy: str = "fifo", lease_seconds: float = 300.0) -> None:
        super().__init__(folder, policy=policy, lease_seconds=lease_seconds)
        self.nodes = folder / "nodes"
        del self.flags["--pretend"]
        self.env = {**self.env, **SETTINGS}
        self.flags |= {"--ray": cluster.address, "--node-dir": str(self.nodes)}
        (self.work / "part.py").write_text(JOB)

    def start(self, gpus: int, steps: int, pace: float, accelerator: str | None = None) -> int:
        run = [sys.executable, "-S", str(self.work / "part.py"), str(self.work), str(steps), str(pace)]
        types = [accelerator] if accelerator else []
        job = self.client().submit(
            run=run, gpus=gpus, steps=steps, accelerators=types, progress=r"step (\d+)/(\d+)", checkpoint={"grace": 20}
        )
        return int(job.id)

    def lives(self, job: int) -> list[tuple[int, int, str, int]]:
        """Attempt, rank, node and first step of each of its parts that ever began."""
        path = self.work / f"{job}.life"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(life), int(rank), node, int(step)) for life, rank, node, step in (line.split() for line in lines)]

    def close(self) -> None:
        super().close()
        end_supervisors(self.nodes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"))) as made:
        made.add("n1", 2, "V100")
        made.add("n2", 2, "V100")
        yield made


def phases(place: RaySite) -> dict[int, str]:
    return {job: row.phase for job, row in place.rows().items()}


def test_ray_and_the_scheduler_may_die_and_no_job_notices(tmp_path: Path, cluster: RayCluster) -> None:
    with contextlib.closing(RaySite(tmp_path, cluster)) as place:
        place.up()
        gang = place.start(4, 10, 0.1)
        alone = [place.start(2, 120, 0.25), place.start(1, 120, 0.25)]
        until(lambda: phases(place)[gang] == "finished", "the gang on both nodes is done")
        assert sorted(life[:3] for life in place.lives(gang)) == [(1, 0, "n1"), (1, 1, "n2")]
        until(lambda: all(len(place.lives(job)) == 1 for job in alone), "both others run")
        cluster.kill("n1")
        place.kill()
        cluster.add("n1", 2, "V100")
        place.up()
        until(lambda: set(phases(place).values()) == {"finished"}, "all are done")
        assert [len(place.lives(job)) for job in alone] == [1, 1], "none was started again"
        assert {row.lost_steps for row in place.rows().values()} == {0}
        assert not (place.work / "violations").exists()


GANG = """
import hashlib, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rota.train.torch import session

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 2))
network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 2))
# Else it adds gradients up in another order from its second step on, and a run that was resumed would differ in the last digits.
model = DistributedDataParallel(network, find_unused_parameters=True)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
with session(model, optimizer, every_seconds=None) as job:
    batches = job.loader(data, batch_size=16)
    for epoch in job.epochs(int(sys.argv[1])):
        for inputs, targets in job.steps(batches):
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
            time.sleep(float(sys.argv[2]))
if dist.get_rank() == 0:
    state = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
    print("weights", hashlib.sha256(state).hexdigest(), job.step, flush=True)
"""
TORCHRUN = (
    "exec {python} -m torch.distributed.run --nnodes $NNODES --node-rank $NODE_RANK --nproc-per-node $ROTA_NODE_GPUS "
    "--master-addr $MASTER_ADDR --master-port $MASTER_PORT {script} {epochs} 0.2"
)


def weights(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("weights"))


@pytest.mark.nightly
def test_a_gang_of_four_ranks_makes_way_for_another_and_goes_on(tmp_path: Path, cluster: RayCluster) -> None:
    """All ranks of both nodes save after the same step and leave; both gangs end as if each had been alone."""
    pytest.importorskip("torch")
    script, epochs = tmp_path / "gang.py", {"long": 40, "short": 8}
    script.write_text(GANG)
    env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    with contextlib.closing(RaySite(tmp_path, cluster, policy="srsf")) as place:
        place.up()

        def submit(name: str) -> int:
            (place.work / name).mkdir()
            run = TORCHRUN.format(python=sys.executable, script=script, epochs=epochs[name])
            how = {"gpus": 4, "progress": "session", "env": env, "workdir": str(place.work / name), "steps": 4 * epochs[name]}
            return int(place.client().submit(run=run, name=name, **how).id)

        long = submit("long")
        until(lambda: (place.rows()[long].steps_done or 0) > 4, "the long one trains")
        short = submit("short")
        until(lambda: all(row.ended for row in place.rows().values()), "both have trained", 300.0)
        rows = place.rows()
        assert rows[long].suspensions >= 1 and rows[short].suspensions == 0
        for job, name in ((long, "long"), (short, "short")):
            said = (place.home / "logs" / f"{job}.log").read_text()
            assert (rows[job].phase, rows[job].lost_steps) == ("finished", 0), said
            plain = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
            run = [*plain, str(script), str(epochs[name]), "0"]
            alone = subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout
            assert weights(said) == weights(alone)


@pytest.mark.nightly
def test_scripts_take_turns_asleep_in_between_and_an_agent_dies_meanwhile(tmp_path: Path, cluster: RayCluster) -> None:
    """Five jobs on four GPUs. They know nothing of Rota, and each ends in the process in which it began."""
    with contextlib.closing(RaySite(tmp_path, cluster, policy="las")) as place:
        place.up(decide="rounds", round_seconds="1")
        jobs = [submit_script(place, PLAIN, 200, f"plain-{number}") for number in range(5)]
        until(lambda: "parked" in phases(place).values(), "one is parked")
        for node in ("n1", "n2"):
            agent = cluster.agent(node)
            assert agent is not None
            os.kill(agent, signal.SIGKILL)
        until(lambda: all(row.ended for row in place.rows().values()), "all are done", 300.0)
        rows = place.rows()
        for job in jobs:
            assert (rows[job].phase, rows[job].lost_steps) == ("finished", 0)
            assert rows[job].park_method == "sleep"
            assert rows[job].park_reason == "its GPUs are pretend GPUs, so its processes are only stopped"
            check_exact(place, job)
        assert sum(row.suspensions for row in rows.values()) >= 1


@pytest.mark.nightly
def test_a_machine_dies_and_another_one_joins(tmp_path: Path, cluster: RayCluster) -> None:
    """What ran on the dead one goes on elsewhere from its last checkpoint, once its lease is over."""
    with contextlib.closing(RaySite(tmp_path, cluster, lease_seconds=12.0)) as place:
        place.up()
        both = place.start(2, 1_000_000, 0.25), place.start(2, 1_000_000, 0.25)
        until(lambda: all(len(place.lives(job)) == 1 for job in both), "both run")
        (lost,) = [job for job in both if place.lives(job)[0][2] == "n2"]
        until(lambda: (place.rows()[lost].steps_done or 0) >= 5, "it has made steps")
        cluster.kill("n2")
        end_supervisors(place.nodes / "n2")
        cluster.add("n3", 2, "K80")
        until(lambda: len(place.lives(lost)) == 2, "it runs on the new one", 300.0)
        life, _, node, step = place.lives(lost)[1]
        assert (life, node) == (2, "n3") and step >= 5
        assert not (place.work / "violations").exists()
        names = {row.name: row.up for row in place.client().nodes()}
        assert names["n1"] and names["n3"] and not names.get("n2", False)
        for job in both:
            place.client().cancel(job)
        until(lambda: all(row.ended for row in place.rows().values()), "both are cancelled")

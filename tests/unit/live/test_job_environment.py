"""What a job sees in its environment."""

import numpy as np

from rota.live.job_environment import GangPlace, job_environment, size_variables
from rota.model.commands import Launch, Resize
from rota.wire.set_by_rota import SET_BY_ROTA
from rota.wire.spec import Spec
from rota.wire.submission import Submission


def test_every_variable_that_is_set_for_a_job_is_refused_in_a_spec() -> None:
    launch = Launch(1, 1, 1, 0, np.array([0]), (0,), (0,), 0.0, batch_size=64)
    own = {"MINE": "1", "PYTHONUNBUFFERED": ""}
    job = Submission(Spec.model_validate({"run": "true", "env": own}), "me", "/", {"PATH": "/bin"})
    found = job_environment(launch, job, GangPlace(host="h", node="n1", gpus=[0]), "home")
    assert found.keys() - {*own, "PATH"} <= set(SET_BY_ROTA)
    assert {name: found[name] for name in own} == own, "what a job may set stands"


def test_a_job_gets_the_variables_of_slurm_only_if_it_asks_for_them() -> None:
    launch = Launch(7, 3, 1, 0, np.array([0, 1, 2]), (0,), (0,), 0.0)
    place = GangPlace(host="h", node="n2", gpus=[4], address="10.0.0.1", nodes=2, rank=1)

    def found(**more: str) -> dict[str, str]:
        spec = Spec.model_validate({"run": "true", "name": "net", "env": {"SLURM_JOB_ID": "mine"}, **more})
        env = job_environment(launch, Submission(spec, "ana", "/work", {}), place, "home")
        return {name: value for name, value in env.items() if name.startswith("SLURM")}

    assert found() == {"SLURM_JOB_ID": "mine"}
    assert found(compat="slurm", tenant="vision") == {
        "SLURM_JOB_ID": "7",
        "SLURM_JOBID": "7",
        "SLURM_JOB_NAME": "net",
        "SLURM_JOB_USER": "ana",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_SUBMIT_DIR": "/work",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "2",
        "SLURM_NPROCS": "2",
        "SLURM_TASKS_PER_NODE": "1(x2)",
        "SLURM_NODEID": "1",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
        "SLURMD_NODENAME": "n2",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURM_GPUS": "3",
        "SLURM_GPUS_ON_NODE": "1",
        "SLURM_JOB_GPUS": "4",
    }


def test_a_job_that_is_resized_gets_the_new_sizes_of_slurm() -> None:
    resize = Resize(7, 3, 2, 0, np.array([0, 1]), (0,), (0, 0))
    spec = Spec.model_validate({"run": "true", "compat": "slurm"})
    found = size_variables(resize, Submission(spec, "ana", "/", {}), GangPlace(host="h", gpus=[0, 1]))
    assert (found["SLURM_GPUS"], found["SLURM_JOB_GPUS"], found["ROTA_GPUS"]) == ("2", "0,1", "2")

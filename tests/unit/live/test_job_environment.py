"""What a job sees in its environment."""

import numpy as np

from rota.live.job_environment import GangPlace, job_environment
from rota.model.commands import Launch
from rota.wire.spec import SET_BY_ROTA, Spec
from rota.wire.submission import Submission


def test_every_variable_that_is_set_for_a_job_is_refused_in_a_spec() -> None:
    launch = Launch(1, 1, 1, 0, np.array([0]), (0,), (0,), 0.0, batch_size=64)
    own = {"MINE": "1", "PYTHONUNBUFFERED": ""}
    job = Submission(Spec.model_validate({"run": "true", "env": own}), "me", "/", {"PATH": "/bin"})
    found = job_environment(launch, job, GangPlace(host="h", node="n1", gpus=[0]), "home")
    assert found.keys() - {*own, "PATH"} <= set(SET_BY_ROTA)
    assert {name: found[name] for name in own} == own, "what a job may set stands"

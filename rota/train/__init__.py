"""What runs inside the user's training script, in three depths.

Nothing: a script that saves on SIGTERM and exits with 75 needs no line of Rota's.
One line: `train.report(step, total)` tells the scheduler how far it is.
Three lines: `train.session(save=..., load=...)` counts steps, saves, and leaves at a step boundary when Rota asks for the GPUs.

    from rota import train

    with train.session(save=save, load=load) as job:
        for batch in job.steps(batches):
            loss = step(batch)
            job.log(loss=loss)

`rota.train.torch` does the saving too. Outside Rota the same script is a plain loop. This imports the standard library only.
"""

from rota.train.session import Session, YieldExit, session
from rota.train.tell import report

__all__ = ["Session", "YieldExit", "report", "session"]

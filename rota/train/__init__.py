"""Code for the user's training script, at three levels.

No line: a script that saves on SIGTERM and exits with 75 needs nothing from Rota.
One line: `train.report(step, total)` reports progress to the scheduler.
Three lines: `train.session(save=..., load=...)` counts steps, saves, and exits between two steps when Rota asks for the GPUs.

    from rota import train

    with train.session(save=save, load=load) as job:
        for batch in job.steps(batches):
            loss = step(batch)
            job.log(loss=loss)

`rota.train.torch` also saves and loads. Outside Rota the same script is a plain loop. This package imports only the standard
library.
"""

from rota.train.progress import report
from rota.train.session import Session, YieldExit, session

__all__ = ["Session", "YieldExit", "report", "session"]

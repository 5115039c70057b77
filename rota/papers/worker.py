"""One worker process of a study."""

from rota.papers.cells import measure
from rota.sweeps.crew import serve

if __name__ == "__main__":
    serve(measure)

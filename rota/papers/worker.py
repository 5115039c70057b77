"""One worker process of an experiment."""

from rota.papers.cells import measure
from rota.sweeps.crew import serve

if __name__ == "__main__":
    serve(measure)

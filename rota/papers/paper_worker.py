"""One worker process of an experiment."""

from rota.papers.paper_cells import measure
from rota.sweeps.worker_pool import serve

if __name__ == "__main__":
    serve(measure)

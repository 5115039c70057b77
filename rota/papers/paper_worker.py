"""One worker process of an experiment."""

from rota.experiments.worker_pool import serve
from rota.papers.paper_cells import measure

if __name__ == "__main__":
    serve(measure)

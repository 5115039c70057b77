"""`rota demo`: a small comparison that needs nothing but this machine."""

from rota.cli import options as flag
from rota.cli.compare import compare

POLICIES = ["fifo", "fifo:backfill=true", "las", "tiresias", "gittins", "srtf", "srsf"]


def demo(output: flag.Output = "table") -> None:
    """Race the classic policies: a small made-up trace on 24 unequal GPUs, in seconds. No GPU, root or network needed."""
    compare(POLICIES, trace="demo", cluster=flag.CLUSTER, output=output)

"""`rota nodes`: show the nodes, their GPUs, and the jobs on them."""

import json
from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.cli.screen import aligned, fitted, screen_columns, shortened

if TYPE_CHECKING:
    from rota.wire.rows import DrainRow, GpuRow, NodeRow

BUSY, PACKED, FREE, BAD = "■◧□✕"
SLOW_GPU_FACTOR = 1.25
"""Slowdown from which a GPU is listed as slow."""
MAX_NAME_CHARS = 32
"""Maximum length of a job's name in the table. -o wide shows whole names."""
_MIN_WIDTHS = {3: 12, 4: 24}
"""Columns JOBS and HEALTH -> their minimum widths, in the order in which they shrink on a narrow terminal."""
_GPU_HEADS = ("NODE", "GPU", "TYPE", "JOBS", "PARKED", "MEMORY", "BUSY", "CLOCK", "TEMPERATURE", "HEALTH")


def nodes(home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show the nodes and which jobs have their GPUs. With -o wide, every GPU has a line with memory, utilization and clock.

    Example: rota nodes -o wide
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.wire.client import connect
    from rota.wire.job_filter import MAX_JOBS

    client = connect(home)
    rows = client.nodes()
    if shaped == "json":
        job_text.say(json.dumps([row.to_dict() for row in rows]))
    elif shaped == "csv":
        from rota.cli.output import say

        say(shaped, rows=[_flat(node, gpu) for node in rows for gpu in node.gpus])
    else:
        held = {job for node in rows for gpu in node.gpus for job in gpu.jobs}
        # Jobs with GPUs come first on a page. While jobs start or stop there are a few more than GPU holders.
        page = client.page(limit=min(2 * len(held) + 50, MAX_JOBS))
        names = {row.id: row.name for row in page.jobs}
        for line in _wide(rows) if shaped == "wide" else _table(rows, names):
            job_text.say(line)


def _table(rows: "list[NodeRow]", names: dict[int, str]) -> list[str]:
    from rota.cli import job_text

    cells = [("NODE", "TYPE", "GPUS", "JOBS", "HEALTH")]
    for node in rows:
        jobs = dict.fromkeys(job for gpu in node.gpus for job in gpu.jobs)
        shown = ", ".join(shortened(job_text.clean(names.get(job, str(job))), MAX_NAME_CHARS) for job in jobs)
        cells.append((job_text.clean(node.name), node.accelerator, "".join(map(_sign, node.gpus)), shown or "-", _health(node)))
    return [
        *aligned(fitted(cells, screen_columns(), _MIN_WIDTHS)),
        f"{BUSY} busy  {PACKED} shared  {FREE} free  {BAD} out of service   a line for each: -o wide",
    ]


def _wide(rows: "list[NodeRow]") -> list[str]:
    from rota.cli import job_text

    cells = [_GPU_HEADS]
    for node in rows:
        for gpu in node.gpus:
            cells.append(
                (
                    job_text.clean(node.name),
                    str(gpu.index),
                    node.accelerator,
                    ", ".join(map(str, gpu.jobs)) or "-",
                    ", ".join(map(str, gpu.parked)) or "-",
                    "-" if gpu.used_gib is None or gpu.memory_gib is None else f"{gpu.used_gib:.1f} of {gpu.memory_gib:.0f} GiB",
                    "-" if gpu.utilization is None else f"{gpu.utilization:.0%}",
                    "-" if gpu.clock_mhz is None else f"{gpu.clock_mhz} MHz" + _of(gpu.max_clock_mhz),
                    "-" if gpu.temperature_c is None else f"{gpu.temperature_c} °C",
                    ", ".join(filter(None, (_gpu_health(gpu), "drained" if gpu.drained else ""))) or "ok",
                )
            )
    hosts = [
        f"{job_text.clean(node.name)}: {node.host_used_gib:.1f} of {node.host_gib:.0f} GiB for parked jobs are set aside"
        for node in rows
        if node.host_gib is not None and node.host_used_gib is not None
    ]
    return [*aligned(cells), *hosts]


def _of(most: int | None) -> str:
    return "" if most is None else f" of {most}"


def _sign(gpu: "GpuRow") -> str:
    out = gpu.cordoned or ((gpu.taken_by or gpu.drained) and not gpu.jobs)
    return BAD if out else PACKED if len(gpu.jobs) > 1 else BUSY if gpu.jobs else FREE


def _health(node: "NodeRow") -> str:
    drains = [_drain(node, drain) for drain in node.drains]
    by_ray = node.draining and not any(drain.begun and not drain.reserves and node.name in drain.places for drain in node.drains)
    slow = [f"GPU {gpu.index} {problem}" for gpu in node.gpus if (problem := _gpu_health(gpu))]
    if not node.up:
        return "; ".join(["lost", *drains])
    return "; ".join([*(["draining"] if by_ray else []), *drains, *slow]) or "ok"


def _drain(node: "NodeRow", drain: "DrainRow") -> str:
    """Return what is drained of a node, by whom, until when and why."""
    from rota.cli import drain_text, job_text

    does = f"reserved for {drain_text.owners(drain)}" if drain.reserves else "drained"
    start = does if drain.begun else f"{does} from {job_text.clock(drain.from_at)}"
    mine = [place.rpartition(":")[2] for place in drain.places if place.rpartition(":")[0] == node.name]
    which = "" if node.name in drain.places else f"GPU {', '.join(mine)} "
    return f"{which}{start}{drain_text.because(drain)}"


def _gpu_health(gpu: "GpuRow") -> str:
    slow = (
        f"takes {gpu.slowdown:.2f} times as long as others" if gpu.slowdown is not None and gpu.slowdown > SLOW_GPU_FACTOR else ""
    )
    other = ""
    if gpu.taken_by:
        from rota.cli import job_text

        other = f"{job_text.clean(gpu.taken_by)} uses it"
    out = gpu.cordoned or (other and not gpu.jobs)
    return ", ".join(filter(None, (slow, other, "out of service" if out else "")))


def _flat(node: "NodeRow", gpu: "GpuRow") -> dict[str, object]:
    plain = gpu.to_dict()
    several = {name: "; ".join(map(str, plain.pop(name))) for name in ("jobs", "parked")}
    return {"node": node.name, "accelerator": node.accelerator, "up": node.up, "draining": node.draining, **several, **plain}

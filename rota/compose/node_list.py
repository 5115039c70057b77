"""Read a cluster from a list of nodes in the format of Alibaba's GPU trace of 2023, "openb" (Weng et al., ATC'23):
`sn,cpu_milli,memory_mib,gpu,model`.

Each row is a node: `sn` is its name, `gpu` its number of GPUs, and `model` their accelerator type as the pods' `gpu_spec` names
it. Nodes without GPUs are left out. CPUs, memory and other columns are ignored.
"""

from collections.abc import Iterator
from pathlib import Path

from rota.errors import ClusterError
from rota.files.csv_table import FileTable, closest, read_table
from rota.model.cluster import ACCELERATOR, MAX_GPUS, Cluster, Node, canonical

COLUMNS = ("sn", "gpu", "model")


def read_node_list(path: Path | str) -> Cluster:
    """Read a list of nodes. Raise ClusterError, which names the line, if it is wrong."""
    table = read_table(path, ClusterError).folded()
    for column in COLUMNS:
        if column not in table.columns:
            raise ClusterError(
                f"a list of nodes needs this column.{closest(column, table.columns)}",
                where=table.where,
                line=table.header_line,
                field=column,
                hint=f"a header with {','.join(COLUMNS)}, or a YAML file",
            )
    nodes = list(_nodes(table))
    if not nodes:
        raise ClusterError("no node has a GPU.", where=table.where, hint="a list with nodes whose gpu is 1 or more")
    return Cluster.of(nodes, str(path))


def _nodes(table: FileTable) -> Iterator[Node]:
    seen: dict[str, int] = {}
    total = 0
    for row in table.rows():
        gpus = row.whole("gpu", least=0)
        if not gpus:
            continue
        name, model = row.text("sn"), canonical(row.text("model"))
        if not name or seen.setdefault(name, row.line) != row.line:
            problem = f"is already the name of line {seen[name]}." if name else "is empty."
            raise row.wrong("sn", problem, hint="give every node its own name")
        if not ACCELERATOR.fullmatch(model):
            raise row.wrong("model", "is not an accelerator type.", hint="a name such as T4, without spaces")
        total += gpus
        if total > MAX_GPUS:
            raise row.wrong("gpu", f"makes more than {MAX_GPUS:,} GPUs.", hint="fewer nodes")
        yield Node(name, model, gpus)

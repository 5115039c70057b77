"""A cluster from a list of nodes as Alibaba published it with its GPU trace of 2023, "openb" (Weng et al., ATC'23):
`sn,cpu_milli,memory_mib,gpu,model`.

A row is a node: `sn` its name, `gpu` how many GPUs it has, `model` their accelerator type as the pods' `gpu_spec` names it. Nodes
without GPUs are left out. CPUs and memory are not read, and other columns may be there.
"""

from collections.abc import Iterator
from pathlib import Path

from rota.errors import ClusterError
from rota.files.csv_table import FileTable, closest, read_table
from rota.model.cluster import ACCELERATOR, MOST_GPUS, Cluster, Node, canonical

COLUMNS = ("sn", "gpu", "model")


def read_node_list(path: Path | str) -> Cluster:
    """Whatever is wrong with the file is an error that names the line."""
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
            raise row.wrong("model", "is no accelerator type.", hint="a name such as T4, without blanks")
        total += gpus
        if total > MOST_GPUS:
            raise row.wrong("gpu", f"makes more than {MOST_GPUS:,} GPUs.", hint="fewer nodes")
        yield Node(name, model, gpus)

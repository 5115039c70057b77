"""Clusters from lists of nodes in the format of Alibaba."""

from pathlib import Path

import pytest

import rota
from rota.compose.cluster_yaml import open_cluster
from rota.compose.file_check import check_file
from rota.errors import AssumptionWarning, ClusterError
from tests.shared import SHARED, needs_shared

LIST = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,64000,262144,2,P100\nn2,64000,262144,8,t4\nn3,1,1,8,V100M32\n"


def test_a_list_of_nodes_is_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(LIST)
    cluster = open_cluster(str(path)).cluster
    assert [(node.name, node.accelerator, node.gpus) for node in cluster.nodes] == [
        ("n1", "P100", 2),
        ("n2", "T4", 8),
        ("n3", "V100M32", 8),
    ]
    assert check_file(str(path)).summary == "3 nodes with 2 P100, 8 T4, 8 V100M32"
    found = rota.simulate("synthetic:jobs=20,gpus=16", cluster=path)
    assert found.summary.finished == 20 and found.params["cluster"] == str(path) and found.notes == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LIST.replace(",gpu,", ",gpus,"), "gpu — a list of nodes needs this column. Closest: gpus"),
        (LIST.replace("n2,", "n1,"), "nodes.csv:4  sn: 'n1' — is already the name of line 3"),
        (LIST.replace("8,t4", "x,t4"), "nodes.csv:4  gpu: 'x' — is not a finite number"),
        (LIST.replace("8,t4", "8,"), "nodes.csv:4  model: '' — is not an accelerator type"),
        ("sn,gpu,model\nn1,0,\n", "no node has a GPU"),
    ],
)
def test_what_is_wrong_with_a_list_is_told_by_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(ClusterError, match=words):
        open_cluster(str(path))


@needs_shared
def test_the_published_list_and_its_pods() -> None:
    nodes = SHARED.joinpath("data/alibaba_v2023_openb/openb_node_list_gpu_node.csv")
    pods = SHARED.joinpath("data/alibaba_v2023_openb/openb_pod_list_default.csv")
    cluster = open_cluster(str(nodes)).cluster
    assert len(cluster.nodes) == 1213 and cluster.gpus == 6212
    assert dict(zip(cluster.pools, cluster.pool_gpus.tolist(), strict=True))["V100M32"] == 204
    every = open_cluster(str(nodes.with_name("openb_node_list_all_node.csv"))).cluster
    assert every.gpus == 6212, "nodes without GPUs are left out"
    with pytest.warns(AssumptionWarning, match="G[23] is an unknown accelerator type"):
        found = rota.simulate(pods, cluster=nodes, first=300, policy="fifo:backfill=true")
    assert found.summary.finished == 300

"""The agent of a node as an actor of Ray. What it does is in `rota/agent/node_agent.py`."""

import os
from pathlib import Path

from rota.agent.node_agent import AgentReplaced, cluster_agent

CALLS_AT_ONCE = 4
"""An exchange must get through while another call waits for a supervisor to ring."""


class AgentActor:
    """Ray makes one for each node, and again if its process dies. It knows its supervisors by their files."""

    def __init__(self, folder: str, name: str, address: str, accelerator: str, pretend_gpus: int) -> None:
        for variable in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):  # what Ray sets is meant for its own tasks
            os.environ.pop(variable, None)
        self._agent = cluster_agent(Path(folder), name, address, accelerator=accelerator, pretend_gpus=pretend_gpus)

    def hello(self) -> str:
        return self._agent.hello()

    def exchange(self, text: str) -> str:
        """An agent that was replaced ends its process, and Ray starts it again: it then finds what is there now."""
        try:
            return self._agent.exchange(text)
        except AgentReplaced:
            os._exit(1)

    def wait(self, seconds: float) -> bool:
        return self._agent.wait(seconds)

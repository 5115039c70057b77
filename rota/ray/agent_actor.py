"""The agent of a node as a Ray actor. `rota/agent/node_agent.py` has its behaviour."""

import os
from pathlib import Path

from rota.agent.node_agent import AgentReplaced, cluster_agent

CALLS_AT_ONCE = 4
"""Maximum number of concurrent calls. An exchange must get through while another call waits for a supervisor to ring."""


class AgentActor:
    """Ray makes one such actor for each node, and another if its process dies. It finds its supervisors by their files."""

    def __init__(self, folder: str, name: str, address: str, accelerator: str, pretend_gpus: int) -> None:
        for variable in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):  # these settings of Ray are for Ray's own tasks
            os.environ.pop(variable, None)
        self._agent = cluster_agent(Path(folder), name, address, accelerator=accelerator, pretend_gpus=pretend_gpus)

    def hello(self) -> str:
        return self._agent.hello()

    def exchange(self, text: str) -> str:
        """Exchange messages with the agent. An agent that was replaced ends its process; Ray restarts it, and it then finds the
        present state."""
        try:
            return self._agent.exchange(text)
        except AgentReplaced:
            os._exit(1)

    def wait(self, seconds: float) -> bool:
        return self._agent.wait(seconds)

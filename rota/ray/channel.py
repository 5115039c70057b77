"""The channel to the nodes of a Ray cluster.

Every Ray node with GPUs has one agent, an actor that stays on that node. Ray restarts its process. After a node died and came
back, Ray gives it another number, so it gets another actor. Ray never repeats calls: whether a failed call was carried out is
unknown, and the driver sends it again.
"""

import contextlib
import json
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from rota.agent.constants import NODES
from rota.agent.gpu_readings import Readings
from rota.agent.messages import PROTOCOL
from rota.agent.node_agent import NodeFacts, read_facts
from rota.agent.processes import boot_s
from rota.errors import OptionError
from rota.live.node_channel import HostReply, ReachableHost
from rota.ray.agent_actor import CALLS_AT_ONCE, AgentActor
from rota.ray.authentication import use_our_token
from rota.ray.names import ASK, REPLACE, TELL, OneOfAName

_T = TypeVar("_T")
LOOK_SECONDS = 1.0
FIRST_LOOK_SECONDS = 60.0
"""Longest wait for the nodes when a scheduler starts, in seconds."""
ASK_AGAIN_SECONDS = 5.0
"""Interval after which a node that has not identified itself gets another request, in seconds. The earlier call may never
return."""
RING_SECONDS = 30.0
"""How long a call waits for a supervisor to ring, in seconds."""
NAME_LABEL, TYPE_LABEL = "rota/node", "ray.io/accelerator-type"
SETTINGS: Mapping[str, str] = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "3600",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}
"""Settings of Ray for this process. Ray ends a process whose head is away for longer than the first, by default a minute. Without
the others, a call to a node that is cut off may never return."""


def start_ray(address: str, namespace: str, settings: Mapping[str, str] = SETTINGS) -> Any:
    """Connect to the cluster at HOST:PORT that `find.py` has checked, and return Ray's module. The environment takes precedence
    over these `settings` of Ray."""
    import ray

    os.environ |= {name: value for name, value in settings.items() if name not in os.environ}
    use_our_token()
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        raise OptionError(
            f"no Ray cluster answers: {str(error).splitlines()[0]}", field="--ray", value=address, hint="ray start --head"
        ) from None
    _silence()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray prints long messages on SIGTERM
    return ray


def _silence() -> None:
    """Keep Ray from printing events of nodes, with pages of its logs. Rota reports them itself, and Ray has no switch for it."""
    with contextlib.suppress(ImportError, AttributeError):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


class _Agent:
    """The agent of a node, from its start until the node or the agent is gone."""

    def __init__(self, actor: Any, name: str) -> None:
        self.actor, self.name = actor, name
        self.facts: NodeFacts | None = None
        self.ask_s = 0.0
        """Time of the next request for its identity, until it has answered."""
        self.listen_s = 0.0
        """Time of the next call that listens for its supervisors: at once, or when the present call has surely got lost."""
        self.listens = 0
        """Number of the last call that listens."""
        self.alive = True


class RayChannel:
    """A `NodeChannel` over Ray."""

    nodes_can_leave = True

    def __init__(self, address: str, home_id: str, folder: Path | None = None) -> None:
        """Connect to the cluster. Schedulers of other homes, by `home_id`, have agents of their own. `folder` is on a disk of
        each node, by default below the user's state folder there."""
        self._ray = start_ray(address, f"rota-{home_id}")
        self._folder = folder or Path(NODES) / home_id
        self.problems: dict[str, str] = {}
        """The last problem of each agent, by the name of its node."""
        self._agents: dict[str, _Agent] = {}
        self._alive: set[str] = set()
        """Hosts that were alive at the last look."""
        self._there: dict[str, ReachableHost] = {}
        self._draining: set[str] = set()
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[HostReply] = queue.SimpleQueue()
        self._rang: set[str] = set()
        self._wake: Callable[[], None] = lambda: None
        self._stopping = threading.Event()
        self._news = threading.Event()
        """Set once all nodes have answered who they are."""
        self._names = OneOfAName()
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._look()
        self._thread = threading.Thread(target=self._run, name="rota-ray", daemon=True)
        self._thread.start()
        self._news.wait(FIRST_LOOK_SECONDS)

    # Methods that the driver calls.

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def nodes(self) -> Mapping[str, ReachableHost]:
        with self._lock:
            return dict(self._there)

    def send(self, host: str, text: str) -> None:
        agent = self._agents.get(host)
        if agent is None:
            self._answer(host, None)
            return
        self._call(agent.actor.exchange, text, host=host, then=lambda found: self._answer(host, found))

    def replies(self) -> list[HostReply]:
        return _all_of(self._answers)

    def changed(self, host: str, facts: NodeFacts) -> None:
        if host in self._agents:
            self._agents[host].facts = facts
            self._tell_there(self._draining)

    def notes(self) -> list[str]:
        return _all_of(self._notes)

    def read_gpus(self) -> Readings:
        return {}  # every heartbeat asks the nodes for readings

    def notified(self) -> set[str]:
        with self._lock:
            found, self._rang = self._rang, set()
        return found

    def close(self) -> None:
        """Disconnect. The agents stay, so the next scheduler of this home finds them."""
        self._stopping.set()
        self._thread.join(LOOK_SECONDS * 2)
        self._ray.shutdown()

    # A separate thread looks at the cluster, because Ray's calls take seconds while its head is away.

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):  # the head is away; the agents may still be there
                self._look()

    def _look(self) -> None:
        alive = {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) > 0}
        self._alive = set(alive)
        draining = self._to_leave()
        self._names.only(self._alive)
        for host, node in sorted(alive.items(), key=self._order()):
            if host not in self._agents and self._may_join(host, node, alive):
                self._greet(host, node)
        for host in [host for host in self._agents if host not in alive]:
            self._agents.pop(host).alive = False
        for host, agent in list(self._agents.items()):
            if agent.facts is None and boot_s() >= agent.ask_s:
                self._ask_who(host, agent)
            elif agent.facts is not None and boot_s() >= agent.listen_s:
                self._listen(host, agent)
        self._tell_there(draining)

    def _order(self) -> Callable[[tuple[str, Any]], bool]:
        """Return a sort key for hosts with the same name: hosts that have not ended and that had an agent before come first."""
        had: set[str] = set()
        if not self._agents:
            with contextlib.suppress(Exception):  # the order matters only if there are several
                had = set(self._ray.util.list_named_actors())
        return lambda each: (
            self._names.ended(each[0]) or (bool(had) and had.isdisjoint((_actor_name(each[0]), _former_name(each[0]))))
        )

    def _may_join(self, host: str, node: Mapping[str, Any], alive: Mapping[str, Any]) -> bool:
        """Return whether this host gets an agent: no other host has its name, or that host is gone or does not answer."""
        name = _name(node)
        holder = next((each for each in self._agents if each in alive and self._agents[each].name == name), None)
        if holder is None:
            return True
        where = [each["NodeManagerAddress"] for each in (alive[holder], node)]
        verdict = self._names.look(name, holder, host, same_machine=where[0] == where[1], now_s=boot_s())
        if verdict == ASK:

            def heard(found: str | None) -> None:
                self._names.heard(name, holder, found, boot_s())

            self._call(self._agents[holder].actor.hello, host=holder, then=heard)
        if verdict == TELL:
            self._notes.put(
                f"WARNING: two Ray nodes are named {name}, at {where[0]} and {where[1]}. The first is used, the second is not. "
                f"Try: start Ray on the second with another name, --labels {NAME_LABEL}=OTHER"
            )
            self._wake()
        if verdict == REPLACE:
            self._agents.pop(holder).alive = False
        return verdict == REPLACE

    def _tell_there(self, draining: set[str]) -> None:
        there = {
            host: ReachableHost(agent.facts, draining=host in draining)
            for host, agent in list(self._agents.items())
            if agent.facts is not None
        }
        with self._lock:
            self._draining = draining
            changed, self._there = there != self._there, there
        if changed:
            self._wake()
        if self._alive - self._names.refused <= there.keys():
            self._news.set()

    def _to_leave(self) -> set[str]:
        """Return the nodes that Ray drains. Ray has no public function for this."""
        try:
            from ray._private.state import state

            return set(state.get_draining_nodes())
        except (ImportError, AttributeError):
            return set()

    def _greet(self, host: str, node: Mapping[str, Any]) -> None:
        """Make the agent of a host, or find the agent that an earlier scheduler made."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        labels, name = node.get("Labels") or {}, _name(node)
        pretend = 0 if _has_nvml(labels) else int(node["Resources"]["GPU"])
        actor = (
            self._ray.remote(AgentActor)
            .options(
                name=_actor_name(host),
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=CALLS_AT_ONCE,
                num_cpus=0,
                num_gpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=host, soft=False),
            )
            .remote(str(self._folder / name), name, node["NodeManagerAddress"], labels.get(TYPE_LABEL, ""), pretend)
        )
        with contextlib.suppress(ValueError):  # usually there is none
            self._ray.kill(self._ray.get_actor(_former_name(host)))
        agent = self._agents[host] = _Agent(actor, name)
        self._ask_who(host, agent)

    def _ask_who(self, host: str, agent: _Agent) -> None:
        agent.ask_s = boot_s() + ASK_AGAIN_SECONDS
        self._call(agent.actor.hello, host=host, then=lambda found: self._met(agent, found))

    def _met(self, agent: _Agent, text: str | None) -> None:
        if text is None:
            agent.ask_s = 0.0  # its process may be starting: the next look asks again
            return
        agent.facts = read_facts(json.loads(text))
        self._tell_there(self._draining)

    def _listen(self, host: str, agent: _Agent) -> None:
        def heard(rang: bool | None) -> None:
            if number != agent.listens:
                return  # another call is listening since, because this one took too long
            agent.listen_s = 0.0
            if rang:
                with self._lock:
                    self._rang.add(host)
                self._wake()
            if rang is not None and agent.alive and not self._stopping.is_set():
                self._listen(host, agent)  # otherwise the next look listens again

        agent.listen_s = boot_s() + 2 * RING_SECONDS
        agent.listens = number = agent.listens + 1
        self._call(agent.actor.wait, RING_SECONDS, host=host, then=heard)

    def _answer(self, host: str, text: str | None) -> None:
        self._answers.put(HostReply(host, text, boot_s()))
        self._wake()

    def _call(self, method: Any, *arguments: Any, host: str, then: Callable[[Any], None]) -> None:
        """Call an agent. `then` gets the result or None, in a thread of Ray that all answers share, so it must be quick. An agent
        that could not be made stays dead even if the obstacle is gone; the next look makes another one."""

        def came(done: "Future[Any]") -> None:
            problem = None if done.cancelled() else done.exception()
            if isinstance(problem, self._ray.exceptions.ActorDiedError) and host in self._agents:
                agent = self._agents.pop(host)
                agent.alive, self.problems[agent.name] = False, (str(problem).strip().splitlines() or [""])[-1]
                self._names.end(host)
            if isinstance(problem, self._ray.exceptions.RayTaskError):
                self._note_problem(host, problem)
            then(None if done.cancelled() or problem else done.result())

        method.remote(*arguments).future().add_done_callback(came)

    def _note_problem(self, host: str, problem: Any) -> None:
        """Report the problem of an agent, once for each node and problem. The node is unusable until it is solved."""
        name, cause = self._agents[host].name if host in self._agents else host, problem.cause
        text = f"{type(cause).__name__}: {(str(cause).splitlines() or [''])[0]}"
        if self.problems.get(name) != text:
            self.problems[name] = text
            self._notes.put(f"the agent of {name} failed: {text}")


def _actor_name(host: str) -> str:
    return f"agent{PROTOCOL}-{host}"


def _former_name(host: str) -> str:
    """Return the name of the agent of a scheduler with an earlier protocol."""
    return f"agent-{host}"


def _name(node: Mapping[str, Any]) -> str:
    """Return the name of a node: its label, or else its host name."""
    return str((node.get("Labels") or {}).get(NAME_LABEL) or node["NodeManagerHostname"])


def _all_of(items: "queue.SimpleQueue[_T]") -> "list[_T]":
    found = []
    with contextlib.suppress(queue.Empty):
        while True:
            found.append(items.get_nowait())
    return found


def _has_nvml(labels: Mapping[str, str]) -> bool:
    """Return whether the node has real GPUs. A node whose label says so has pretend GPUs, for tests."""
    return labels.get("rota/pretend", "") != "true"

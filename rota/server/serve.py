"""Puts a daemon together and serves it: the only place that knows both the scheduler and the socket."""

import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota import __version__
from rota.agent.gpu_lock import hold_gpus
from rota.agent.gpus import Gpu, find_gpus
from rota.agent.host_memory import parking_gib, total_gib
from rota.agent.log import LIMIT_BYTES, SMALLEST_LIMIT_BYTES
from rota.agent.mps import mps_folder
from rota.beliefs.move_costs import LINK_SPEED
from rota.compose.accelerator_types import type_guesses
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, plain_settings
from rota.compose.parse_tactics import make_tactics
from rota.compose.prepare_live import (
    GivenFlags,
    LiveFlags,
    describe_given_changes,
    forgettable,
    given_decision_timing,
    merge_given,
    read_flags,
)
from rota.compose.registry import make_placer, make_policy, split_pair
from rota.core.settings import Settings
from rota.errors import NotYours, OptionError, RotaError
from rota.folders import check_folder, make_folder
from rota.live.daemon import Daemon
from rota.live.fleet import Fleet
from rota.live.given_beliefs import CONTEXT, GIVEN, given_rates
from rota.live.home_id import home_id
from rota.live.identity import record_home, settle_identity
from rota.live.journal import Journal
from rota.live.journal_place import JournalLocation, find_journal, has_journal, open_journal
from rota.live.journal_store import LeadershipLost
from rota.live.local import Local
from rota.model.cluster import Cluster, Node
from rota.model.counted import counted
from rota.model.needs import needs_of
from rota.model.units import FOREVER
from rota.ray.channel import RayChannel
from rota.ray.find import AUTO, checked_cluster
from rota.ray.port import read_address
from rota.server.http_api import make_app
from rota.server.http_server import HttpServer
from rota.server.standby import Lead, leading, only_one
from rota.server.unix_socket import listening_on_file
from rota.wire.address import make_token, remove_address, write_address

PRETEND = "4xV100"
POLICY = "tiresias"
PLACER = "packed"
LEASE_SECONDS, CLUSTER_LEASE_SECONDS = 86_400.0, 300.0
"""On one machine no other job can get the GPUs of a job whose scheduler is away, so it may run for long. On a cluster the jobs of
a node that is lost start elsewhere when their leases have expired."""
LEASE_GRACE_SECONDS = 60.0
"""What a job gets for saving its state when its lease is over."""
LEASE_SLACK_SECONDS = 30.0
RETRY_SECONDS = 5.0
MIN_RUN_FACTOR = 10.0
"""An attempt runs for this many times what starting and stopping the job costs before another job may have its GPUs."""
SILENT_SECONDS = 30.0
"""A node of a cluster that was not heard of for so long is unreachable."""
FAILING_STARTS = 3
"""A node on which this many starts ended within seconds, of jobs that then ran elsewhere, is cordoned."""
NODES_EVERY_SECONDS = 0.2
"""How often to look for the first node of a cluster."""
MOST_LOG_MB = 1 << 20
ANOTHER_HOME = "--home with a folder of yours"
BEGIN_SECONDS = 10.0
"""How long the last line of a start waits for what the scheduler has to say of its first decision."""
TRY = "try: rota submit --gpus 1 -- python -c \"print('hello')\""
"""The last line of a start."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `rota up` was asked for."""

    home: Path
    pretend: str | None = None
    listen: str = "127.0.0.1:7070"
    given: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a study (`rota.compose.live_fields`) that were set. Others are as this home had them last; the policy of a new
    home is `POLICY`."""
    forget: tuple[str, ...] = ()
    """Of those that this home has, the ones that no longer hold."""
    lease_seconds: float | None = None
    """How long jobs keep running without the scheduler; None: `LEASE_SECONDS`, or with `ray` `CLUSTER_LEASE_SECONDS`."""
    lease_grace_seconds: float = LEASE_GRACE_SECONDS
    log_mb: float = LIMIT_BYTES / (1 << 20)
    """What the log of a job may take."""
    mps: str | None = None
    """The folder of the control daemon of MPS, if jobs are to run under it."""
    ray: str | None = None
    """The address of a Ray cluster, or auto; None: jobs run on this machine."""
    insecure_ray: bool = False
    """Whether a Ray cluster that asks for no token is used."""
    node_folder: str | None = None
    """Where agents of a cluster keep what they need, on a disk of each node."""
    journal: str | None = None
    """The address of a PostgreSQL database for the journal; None: where this home has it."""
    standby: bool = False
    """Wait until no other scheduler leads."""
    adopt: bool = False
    """The home is a copy, and is the home from now on."""
    new_identity: bool = False
    """The home is a copy, and becomes a home of its own."""

    @property
    def lease(self) -> float:
        """In seconds."""
        if self.lease_seconds is not None:
            return self.lease_seconds
        return LEASE_SECONDS if self.ray is None else CLUSTER_LEASE_SECONDS


@dataclass(frozen=True)
class CheckedOptions:
    """What was asked for, checked before anything is touched."""

    driver: Local | Fleet
    pretend: bool
    """Its GPUs are made up."""
    flags: LiveFlags
    forget: tuple[str, ...]


def check_options(options: ServeOptions, say: Callable[[str], None] = lambda line: None) -> CheckedOptions:
    """Every mistake in them is told here. Files that are named are read. With Ray, wait until a node with GPUs is there."""
    _check_plain(options)
    driver, pretend = _local(options) if options.ray is None else _fleet(options, say)
    flags = read_flags(options.given, driver.discover_cluster(), [name for names in driver.devices() for name in names])
    checked = CheckedOptions(driver, pretend, flags, forgettable(options.forget))
    before = last_configuration(find_journal(options.home, options.journal))
    _type_guesses(checked, _first_configuration(options, checked, before)[GIVEN])
    return checked


def _check_home(home: Path) -> None:
    """Refuse a home that others can change, and one that is a file. Other faults of a home show when it is made."""
    for each in (home, *home.parents):
        with suppress(OSError):  # it is not there yet, or cannot be looked at
            if stat.S_ISDIR(each.stat().st_mode):
                break
            raise OptionError(f"{each} is a file, not a folder.", field="--home", value=str(home), hint="--home ~/.rota")
    try:
        check_folder(home, instead=ANOTHER_HOME)
    except NotYours:
        raise
    except OSError:
        pass


def _local(options: ServeOptions) -> tuple[Local, bool]:
    """The driver of this machine, and whether its GPUs are made up."""
    cluster, gpus = this_machine(options.pretend, otherwise=_pretended_before(options))
    driver = Local(
        options.home,
        cluster,
        lease_grace_seconds=options.lease_grace_seconds,
        gpus=gpus,
        log_bytes=int(options.log_mb * (1 << 20)),
        mps=mps_folder(options.mps, pretend=gpus is None),
    )
    return driver, gpus is None


def _pretended_before(options: ServeOptions) -> str:
    """The pretend GPUs that this home had last, for a start that names none."""
    before = last_configuration(find_journal(options.home, options.journal)) if options.pretend is None else {}
    return str(before["cluster"]) if before.get("pretend") else PRETEND


def check_words(options: ServeOptions) -> None:
    """Check what can be checked before the Ray cluster runs: everything but tables of single GPUs."""
    _check_plain(options)
    if options.ray not in (None, AUTO):
        read_address(str(options.ray))
    given = {name: value for name, value in options.given.items() if name not in ("variability", "variability_medians")}
    flags = read_flags(given, Cluster.parse(PRETEND), [])
    policy, placer = split_pair(flags.policy or POLICY)
    make_policy(policy)
    make_placer(placer or flags.placer or PLACER)
    forgettable(options.forget)
    find_journal(options.home, options.journal)


def _check_plain(options: ServeOptions) -> None:
    _check_home(options.home)
    if not 0 < options.lease < FOREVER:
        hint = f"--lease-seconds {CLUSTER_LEASE_SECONDS:.0f}"
        raise OptionError("must be more than 0.", field="--lease-seconds", value=options.lease_seconds, hint=hint)
    if not SMALLEST_LIMIT_BYTES / (1 << 20) <= options.log_mb <= MOST_LOG_MB:
        raise OptionError(f"must be from 0.016 to {MOST_LOG_MB:,}.", field="--log-mb", value=options.log_mb, hint="--log-mb 64")
    for name, value in (("--pretend", options.pretend), ("--mps", options.mps)) if options.ray is not None else ():
        if value is not None:
            raise OptionError("does not go with --ray.", field=name, value=value, hint=f"leave {name} out")


def _fleet(options: ServeOptions, say: Callable[[str], None]) -> tuple[Fleet, bool]:
    """The driver of a Ray cluster, once one of its nodes has GPUs."""
    assert options.ray is not None
    address = checked_cluster(options.ray, insecure=options.insecure_ray, say=say)
    make_folder(options.home, instead=ANOTHER_HOME)
    folder = Path(options.node_folder).expanduser() if options.node_folder is not None else None
    hosts = RayChannel(address, home_id(options.home), folder)
    if not any(each.facts.devices for each in hosts.nodes().values()):
        say(f"waiting: no node of the Ray cluster at {address} has GPUs yet. On one: ray start --address {address} --num-gpus 8")
    while not any(each.facts.devices for each in hosts.nodes().values()):
        if hosts.problems:
            hosts.close()
            reasons = " ".join(f"{name}: {problem}" for name, problem in sorted(hosts.problems.items()))
            owned = "--node-folder with a folder that only you can write" if NotYours.__name__ in reasons else "rota doctor"
            raise OptionError(f"no node of this cluster answers. {reasons}", field="--ray", value=address, hint=owned)
        time.sleep(NODES_EVERY_SECONDS)
    driver = Fleet(
        options.home,
        hosts,
        lease_grace_seconds=options.lease_grace_seconds,
        gone_after_seconds=options.lease + options.lease_grace_seconds + LEASE_SLACK_SECONDS,
        log_bytes=int(options.log_mb * (1 << 20)),
    )
    return driver, all(each.facts.pretend for each in hosts.nodes().values())


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Until it is told to stop, or no longer leads. The jobs outlive it."""
    _check_home(options.home)
    with only_one(options.home) if options.adopt or options.new_identity else nullcontext():
        settle_identity(options.home, adopt=options.adopt, new_identity=options.new_identity, say=say)
    place = find_journal(options.home, options.journal)
    checked = check_options(options, say)
    if options.standby:  # options are checked before it waits; it looks for machines when it leads
        checked.driver.close()
    run = _Run()
    with leading(options.home, place, standby=options.standby, say=say, on_lost=run.fall) as lead:
        record_home(options.home)
        if options.standby:
            checked = check_options(options, say)
        run.lead = lead
        _serve(options, checked, open_journal(place, JOURNAL_CODEC, lead.epoch), run, say)
    if run.failed:
        problem, usual = run.failed[0], "rota up again; nothing that was acknowledged is lost"
        raise RotaError(f"The scheduler stopped: {problem}.", hint=problem.hint if isinstance(problem, LeadershipLost) else usual)


def _serve(options: ServeOptions, checked: CheckedOptions, journal: Journal, run: "_Run", say: Callable[[str], None]) -> None:
    """While this process leads."""
    cluster = checked.driver.discover_cluster()
    real = checked.driver.real_gpus if isinstance(checked.driver, Local) else []
    with hold_gpus(real, options.home), _listening(options.listen) as (listener, url):
        before = journal.configuration() or {}
        configuration = _first_configuration(options, checked, before)
        told = configuration[GIVEN]
        daemon = Daemon(
            options.home,
            make_scheduler,
            JOURNAL_CODEC,
            checked.driver,
            worker=lambda policy: [sys.executable, "-m", "rota.server.policy_worker", policy],
            configuration=configuration,
            with_policy=lambda policy, placer: make_configuration(options, policy, placer, checked, told),
            on_failure=run.fall,
            tell=say,
            journal=journal,
        )
        token = make_token(options.home)
        app = make_app(daemon, token, allowed_hosts=LOOPBACK, lead_problem=run.lead_problem)
        server = run.server = HttpServer(app)
        server.should_exit = bool(run.failed)
        _leave_in_order(server)
        write_address(options.home, url, os.getpid(), __version__)
        try:
            say(f"ready {url}")
            by = f"policy {configuration['policy']}, placer {configuration['placer']}"
            gpus = counted(cluster.gpus, "pretend GPU" if checked.pretend else "GPU")
            say(f"{gpus}: {cluster}   {by}   home {options.home}")
            for line in (*describe_given_changes(before.get(GIVEN, {}), told), *_type_guesses(checked, told)):
                say(line)
            daemon.start()  # it may have something to say, and the first line is that it is ready
            daemon.begun.wait(BEGIN_SECONDS)
            say(TRY)
            server.run(sockets=[listener])
        finally:
            remove_address(options.home, os.getpid())
            daemon.stop()


def _leave_in_order(server: HttpServer) -> None:
    """A signal to end is heard, and does no more: the server raises what it caught once more when it has stopped, and by default
    that would end the process before it has cleared up. One that was started in the background ignores SIGINT, and would do so
    until the server runs, though it is said to be ready."""
    if threading.current_thread() is threading.main_thread():
        ignored = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else []
        for number in (signal.SIGTERM, signal.SIGHUP, *ignored):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))


def _type_guesses(checked: CheckedOptions, told: GivenFlags) -> list[str]:
    """A sentence for each accelerator type whose speed has to be guessed. In --pretend, what looks like a typing error raises."""
    return type_guesses(checked.driver.discover_cluster(), given_rates(told), typed=checked.pretend)


def _first_configuration(options: ServeOptions, checked: CheckedOptions, before: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, and for the rest how this home was set up before."""
    flags = checked.flags
    if flags.policy is not None:
        policy, placer = flags.policy, PLACER
    else:
        policy, placer = before.get("policy", POLICY), before.get("placer", PLACER)
    told = merge_given(before.get(GIVEN, {}), flags.told, checked.forget)
    return make_configuration(options, policy, flags.placer or placer, checked, told)


def make_configuration(
    options: ServeOptions, named: str, placer: str, checked: CheckedOptions, told: GivenFlags
) -> dict[str, Any]:
    """What the journal keeps of how the scheduler is set up. The placer of a pair, as in `tiresias+pal`, wins."""
    policy_named, placer_paired = split_pair(named)
    needs = needs_of(make_policy(policy_named))
    placer_named = placer_paired or placer
    make_placer(placer_named)
    cluster, said = checked.driver.discover_cluster(), {name: each["said"] for name, each in told.items()}
    settings = Settings(
        lease_seconds=options.lease,
        lease_margin_seconds=options.lease_grace_seconds + LEASE_SLACK_SECONDS,
        retry_seconds=RETRY_SECONDS,
        node_timeout_seconds=FOREVER if options.ray is None else SILENT_SECONDS,
        decide=given_decision_timing(told),
        packing=needs.packing,
        foresees=needs.predictions,
        min_run_factor=said.get("min_run_factor", MIN_RUN_FACTOR),
        wait_for_place=said.get("wait_for_place", False),
        tactics=make_tactics(str(said.get("tactics") or needs.tactics)),
        learn_variability=True,
        parked_stay=True,
        cordon_slower_than=said.get("cordon_slower_than", FOREVER),
        cordon_failing_starts=FAILING_STARTS,
    )
    return {
        "policy": policy_named,
        "placer": placer_named,
        "cluster": str(cluster),
        "nodes": [
            [node.name, node.accelerator, node.gpus, node.rack, *([] if node.host_gib is None else [node.host_gib])]
            for node in cluster.nodes
        ],
        "pretend": checked.pretend,
        **({} if checked.pretend else {CONTEXT: LINK_SPEED.context_gib}),
        "settings": plain_settings(settings),
        GIVEN: told,
    }


def last_configuration(place: JournalLocation) -> Mapping[str, Any]:
    """How the home with this journal was last set up; empty for a new one."""
    before = None
    if has_journal(place):
        journal = open_journal(place, JOURNAL_CODEC)
        before = journal.configuration()
        journal.close()
    return before if before is not None else {}


class _Run:
    """What ends a server from elsewhere: the daemon failed, or another scheduler leads."""

    def __init__(self) -> None:
        self.server: HttpServer | None = None
        self.failed: list[BaseException] = []
        self.lead = Lead()

    def lead_problem(self) -> str:
        """Any thread."""
        return "another scheduler leads" if any(isinstance(each, LeadershipLost) for each in self.failed) else self.lead.problem()

    def fall(self, problem: BaseException) -> None:
        """Any thread."""
        self.failed.append(problem)
        if self.server is not None:
            self.server.should_exit = True


def this_machine(pretend: str | None, otherwise: str = PRETEND) -> tuple[Cluster, list[list[Gpu]] | None]:
    """Its GPUs, one node for each type, with the memory for parked jobs; pretend ones (None) where it has none (`otherwise`), or
    where that is asked for."""
    if pretend is not None:
        return Cluster.parse(pretend), None
    found = find_gpus()
    if not found:
        return Cluster.parse(otherwise), None
    by_type: dict[str, list[Gpu]] = {}
    for gpu in found:
        by_type.setdefault(gpu.accelerator, []).append(gpu)
    host = socket.gethostname().split(".")[0] or "n1"
    memory_gib = total_gib()
    nodes = []
    for accelerator, mine in by_type.items():
        name = host if len(by_type) == 1 else f"{host}-{accelerator.lower()}"
        nodes.append(Node(name, accelerator, len(mine), host_gib=parking_gib(memory_gib, len(mine) / len(found))))
    text = " + ".join(f"1x({len(mine)}x{accelerator})" for accelerator, mine in by_type.items())
    return Cluster.of(nodes, text), list(by_type.values())


@contextmanager
def _listening(listen: str) -> Iterator[tuple[socket.socket, str]]:
    """A socket that is bound, and its address as clients write it."""
    if listen.startswith("unix:"):
        with listening_on_file(listen) as found:
            yield found
        return
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host not in LOOPBACK or not port.isdigit() or int(port) > 65535:
        problem_text = "only loopback addresses are served in this version" if host not in LOOPBACK else "is not HOST:PORT"
        raise OptionError(f"{problem_text}.", field="--listen", value=listen, hint="--listen 127.0.0.1:7070")
    # Said to be TCP, or the event loop would leave Nagle's algorithm on and every answer would wait 40 ms for an echo.
    listener = socket.socket(socket.AF_INET6 if host == "::1" else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((host, int(port)))
        except OSError as problem:
            raise OptionError(
                f"{problem.strerror or problem}.", field="--listen", value=listen, hint="--listen 127.0.0.1:0 takes any free port"
            ) from None
        listener.listen(128)
        yield listener, f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"

"""Build a daemon and serve it. No other module knows both the scheduler and the socket."""

import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rota import __version__
from rota.agent.gpu_lock import hold_gpus
from rota.agent.gpus import Gpu, find_gpus
from rota.agent.host_memory import parking_gib, total_gib
from rota.agent.log import LIMIT_BYTES, MIN_LIMIT_BYTES
from rota.agent.mps import mps_folder
from rota.beliefs.move_costs import LINK_SPEED
from rota.compose.accelerator_types import type_assumptions
from rota.compose.live_scheduler import JOURNAL_CODEC, make_home_setup, make_scheduler
from rota.compose.prepare_live import LiveFlags, describe_given_changes, forgettable, merge_given, read_flags
from rota.compose.registry import make_placer, make_policy, split_pair
from rota.core.settings import Settings
from rota.errors import DEBUG, NotYours, OptionError, RotaError
from rota.folders import check_folder, make_folder
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.given_beliefs import GivenFlags, given_rates
from rota.live.gpu_stay import DAY_SECONDS
from rota.live.home_id import home_id
from rota.live.home_setup import HomeSetup
from rota.live.identity import record_home, settle_identity
from rota.live.journal import Journal
from rota.live.journal_place import JournalLocation, find_journal, has_journal, open_journal
from rota.live.journal_store import LeadershipLost
from rota.live.local_channel import LocalChannel
from rota.model.cluster import Cluster, Node
from rota.model.counted import counted
from rota.model.units import FOREVER
from rota.ray.channel import RayChannel
from rota.ray.find import AUTO, checked_cluster
from rota.ray.port import read_address
from rota.server.http_api import make_app
from rota.server.http_server import HttpServer
from rota.server.identities import Identities
from rota.server.listeners import check_listen, listening
from rota.server.standby import Lead, leadership, only_one
from rota.server.tls import Certificate
from rota.wire.address import make_token, remove_address, write_address
from rota.wire.find_scheduler import LOOPBACK
from rota.wire.notify import Notify

PRETEND = "4xV100"
POLICY = "tiresias"
PLACER = "packed"
LEASE_SECONDS, CLUSTER_LEASE_SECONDS = 86_400.0, 300.0
"""Default leases on one machine and on a cluster, in seconds. On one machine no other job can get the GPUs of a job whose
scheduler is away, so its lease is long. On a cluster, jobs of a lost node start elsewhere only when their leases have expired."""
LEASE_GRACE_SECONDS = 60.0
"""Time that a job has to save its state when its lease has expired, in seconds."""
LEASE_SLACK_SECONDS = 30.0
RETRY_SECONDS = 5.0
MIN_RUN_FACTOR = 10.0
"""Minimum running time of an attempt before another job may get its GPUs, as a multiple of the cost of starting and stopping."""
NODE_TIMEOUT_SECONDS = 30.0
"""Time without a heartbeat after which a node of a cluster is unreachable, in seconds."""
FAILING_STARTS = 3
"""Number of starts that fail within seconds on a node, of jobs that then run elsewhere, after which the node is cordoned."""
NODES_EVERY_SECONDS = 0.2
"""Interval between two checks for the first node of a cluster, in seconds."""
MAX_LOG_MB = 1 << 20
KEEP_DAYS = 365.0
"""Default of `--keep-history`, in days."""
ANOTHER_HOME = "--home with a folder of yours"
BEGIN_SECONDS = 10.0
"""Longest wait for notes on the first decision before the last line of a start is printed, in seconds."""
TRY = "try: rota submit --gpus 1 -- python -c \"print('hello')\""
"""Last line of a start."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `rota up`."""

    home: Path
    pretend: str | None = None
    listen: tuple[str, ...] = ()
    """Addresses to listen on, HOST:PORT or unix:PATH; empty for the defaults."""
    all_users: bool = False
    """Whether all Unix users of this machine are served, and each job runs as the user who submitted it."""
    hide_names: bool = False
    """Whether users do not see the names of other users' jobs."""
    tls_cert: Path | None = None
    """Certificate chain for TLS; None if TCP connections do not use TLS."""
    tls_key: Path | None = None
    """Private key of the certificate."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a study (`rota.compose.live_fields`) that were given. Other fields keep the home's last values; the policy of a
    new home is `POLICY`."""
    forget: tuple[str, ...] = ()
    """Fields whose values this home forgets."""
    health: GivenFlags = field(default_factory=dict)
    """Flags of health checks that were given (`rota.live.node_health`)."""
    lease_seconds: float | None = None
    """How long jobs keep running without the scheduler, in seconds; None for `LEASE_SECONDS`, or with `ray` for
    `CLUSTER_LEASE_SECONDS`."""
    lease_grace_seconds: float = LEASE_GRACE_SECONDS
    log_mb: float = LIMIT_BYTES / (1 << 20)
    """Maximum size of a job's log, in MB."""
    keep_days: float = KEEP_DAYS
    """How long ended jobs are kept, in days; infinite for ever."""
    notify: Notify | None = None
    """Where events of all jobs are sent; None if nowhere."""
    mps: str | None = None
    """Pipe directory of the MPS control daemon, on every node that has one; None if jobs run without MPS."""
    ray: str | None = None
    """Address of a Ray cluster, or auto; None if jobs run on this machine."""
    insecure_ray: bool = False
    """Whether a Ray cluster without a token is accepted."""
    node_folder: str | None = None
    """Directory of the agents on a local disk of each node; None for the default."""
    journal: str | None = None
    """Address of a PostgreSQL database for the journal; None for the journal that this home uses."""
    standby: bool = False
    """Whether to wait while another scheduler is leader."""
    adopt: bool = False
    """Whether the home is a copy that replaces its original."""
    new_identity: bool = False
    """Whether the home is a copy that becomes a home of its own."""

    @property
    def lease(self) -> float:
        """Length of leases, in seconds."""
        if self.lease_seconds is not None:
            return self.lease_seconds
        return LEASE_SECONDS if self.ray is None else CLUSTER_LEASE_SECONDS


@dataclass(frozen=True)
class CheckedOptions:
    """The options, checked before anything is changed."""

    driver: Driver
    pretend: bool
    """Whether the GPUs are pretend GPUs."""
    flags: LiveFlags
    forget: tuple[str, ...]
    gpus_here: tuple[str, ...] = ()
    """The UUIDs of the real GPUs of this machine that the scheduler takes."""


def check_options(options: ServeOptions, say: Callable[[str], None] = lambda line: None) -> CheckedOptions:
    """Check the options and read the files that they name. Raise for the first mistake. With Ray, wait for a node with GPUs."""
    _check_plain(options)
    driver, pretend, gpus = _on_this_machine(options) if options.ray is None else _on_a_cluster(options, say)
    flags = read_flags(options.given, driver.discover_cluster(), [name for names in driver.devices() for name in names])
    flags = replace(flags, given={**flags.given, **options.health})
    checked = CheckedOptions(driver, pretend, flags, forgettable(options.forget), gpus)
    before = last_setup(find_journal(options.home, options.journal))
    _type_assumptions(checked, _first_setup(options, checked, before).flags)
    return checked


def _check_home(home: Path) -> None:
    """Refuse a home that is a file or that other users can change. Other faults of a home appear when it is made."""
    for each in (home, *home.parents):
        with suppress(OSError):  # the home does not exist yet, or cannot be read
            if stat.S_ISDIR(each.stat().st_mode):
                break
            raise OptionError(f"{each} is a file, not a folder.", field="--home", value=str(home), hint="--home ~/.rota")
    try:
        check_folder(home, instead=ANOTHER_HOME)
    except NotYours:
        raise
    except OSError:
        pass


def _on_this_machine(options: ServeOptions) -> tuple[Driver, bool, tuple[str, ...]]:
    """Return the driver of this machine, whether its GPUs are pretend GPUs, and the UUIDs of real ones."""
    cluster, gpus = this_machine(options.pretend, otherwise=_pretended_before(options))
    driver = Driver(
        options.home,
        LocalChannel(options.home, cluster, gpus),
        lease_grace_seconds=options.lease_grace_seconds,
        log_bytes=int(options.log_mb * (1 << 20)),
        mps=mps_folder(options.mps, pretend=gpus is None),
    )
    return driver, gpus is None, tuple(sorted(gpu.uuid for each in gpus or () for gpu in each))


def _pretended_before(options: ServeOptions) -> str:
    """Return the pretend GPUs that this home had last, for a start that names none."""
    before = last_setup(find_journal(options.home, options.journal)) if options.pretend is None else None
    return str(before.cluster) if before is not None and before.pretend else PRETEND


def check_texts(options: ServeOptions) -> None:
    """Check what can be checked before the Ray cluster runs: everything except tables of single GPUs."""
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
    if not MIN_LIMIT_BYTES / (1 << 20) <= options.log_mb <= MAX_LOG_MB:
        raise OptionError(f"must be from 0.016 to {MAX_LOG_MB:,}.", field="--log-mb", value=options.log_mb, hint="--log-mb 64")
    check_listen(options.listen, all_users=options.all_users, tls=options.tls_cert is not None)
    certificate_of(options)
    if options.ray is not None and options.pretend is not None:
        raise OptionError("does not go with --ray.", field="--pretend", value=options.pretend, hint="leave --pretend out")


def _on_a_cluster(options: ServeOptions, say: Callable[[str], None]) -> tuple[Driver, bool, tuple[str, ...]]:
    """Return the driver of a Ray cluster, when one of its nodes has GPUs, and whether all its GPUs are pretend GPUs."""
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
            owned = "--node-dir with a folder that only you can write" if NotYours.__name__ in reasons else "rota doctor"
            raise OptionError(f"no node of this cluster answers. {reasons}", field="--ray", value=address, hint=owned)
        time.sleep(NODES_EVERY_SECONDS)
    pretend = all(each.facts.pretend for each in hosts.nodes().values())
    driver = Driver(
        options.home,
        hosts,
        lease_grace_seconds=options.lease_grace_seconds,
        gone_after_seconds=options.lease + options.lease_grace_seconds + LEASE_SLACK_SECONDS,
        log_bytes=int(options.log_mb * (1 << 20)),
        mps=mps_folder(options.mps, pretend=pretend, on_nodes=True),
    )
    return driver, pretend, ()


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, or until this process is no longer leader. The jobs outlive the scheduler."""
    _check_home(options.home)
    with only_one(options.home) if options.adopt or options.new_identity else nullcontext():
        settle_identity(options.home, adopt=options.adopt, new_identity=options.new_identity, say=say)
    place = find_journal(options.home, options.journal)
    checked = check_options(options, say)
    if options.standby:  # options are checked before waiting; nodes are discovered only by the leader
        checked.driver.close()
    run = _Run()
    with leadership(options.home, place, standby=options.standby, say=say, on_lost=run.fall) as lead:
        record_home(options.home)
        if options.standby:
            checked = check_options(options, say)
        run.lead = lead
        _serve(options, checked, open_journal(place, JOURNAL_CODEC, lead.epoch), run, say)
    if run.failed:
        problem, usual = run.failed[0], "rota up again; nothing that was acknowledged is lost"
        if not run.wrote and not isinstance(problem, RotaError):
            raise _failed_start(problem) from problem
        raise RotaError(f"The scheduler stopped: {problem}.", hint=problem.hint if isinstance(problem, LeadershipLost) else usual)


def _serve(options: ServeOptions, checked: CheckedOptions, journal: Journal, run: "_Run", say: Callable[[str], None]) -> None:
    """Serve while this process is leader."""
    cluster = checked.driver.discover_cluster()
    certificate = certificate_of(options)
    ways = listening(options.listen, options.home, all_users=options.all_users, tls=certificate is not None)
    with hold_gpus(checked.gpus_here, options.home, say), ways as listeners:
        before = journal.setup()
        setup, last = _first_setup(options, checked, before), journal.last
        try:
            daemon = Daemon(
                options.home,
                make_scheduler,
                JOURNAL_CODEC,
                checked.driver,
                worker=lambda policy: [sys.executable, "-m", "rota.server.policy_worker", policy],
                setup=setup,
                with_policy=lambda policy, placer: home_setup(options, policy, placer, checked, setup.flags),
                on_failure=run.fall,
                tell=say,
                journal=journal,
                keep_seconds=options.keep_days * DAY_SECONDS,
                notify=options.notify,
            )
        except RotaError:
            raise
        except Exception as problem:
            raise _failed_start(problem) from problem
        identities = Identities(make_token(options.home), options.home, all_users=options.all_users, on_problem=say)
        app = make_app(daemon, identities, allowed_hosts=LOOPBACK, lead_problem=run.lead_problem, hide_names=options.hide_names)
        server = run.server = HttpServer(app, certificate=certificate)
        server.should_exit = bool(run.failed)
        _leave_in_order(server)
        local = next(each.url for each in listeners if not each.tls)  # its own clients need no certificate
        write_address(options.home, local, os.getpid(), __version__)
        try:
            say(f"ready {listeners[0].url}")
            by = f"policy {setup.policy}, placer {setup.placer_name}"
            gpus = counted(cluster.gpus, "pretend GPU" if checked.pretend else "GPU")
            say(f"{gpus}: {cluster}   {by}   home {options.home}")
            served = "all users of this machine; each job runs as its user" if options.all_users else identities.owner.name
            say(f"serves {served}" + "".join(f"   also at {each.url}" for each in listeners[1:]))
            flags_before = before.flags if before is not None else {}
            for line in (*describe_given_changes(flags_before, setup.flags), *_type_assumptions(checked, setup.flags)):
                say(line)
            daemon.start()  # started after the first line, `ready`, since it may print notes
            daemon.begun.wait(BEGIN_SECONDS)
            if not run.failed:
                say(TRY)
                server.run(sockets=[each.socket for each in listeners])
        finally:
            remove_address(options.home, os.getpid())
            daemon.stop()
            run.wrote = journal.last > last


def _failed_start(problem: BaseException) -> RotaError:
    """Return the error of a scheduler that failed before its first entry in the journal, such as a broken new version."""
    return RotaError(
        f"Rota {__version__} cannot run this home: {type(problem).__name__}: {problem}. "
        "It wrote no entry to the journal and stopped no job.",
        hint=f"the version of Rota that ran it before; {DEBUG}=1 rota up shows the traceback",
    )


def certificate_of(options: ServeOptions) -> Certificate | None:
    """Return the certificate of the options; None if TCP connections do not use TLS."""
    if options.tls_cert is None or options.tls_key is None:
        if options.tls_cert is not None or options.tls_key is not None:
            given, missing = ("--tls-cert", "--tls-key") if options.tls_cert is not None else ("--tls-key", "--tls-cert")
            raise OptionError(f"needs {missing} too.", field=given, hint="--tls-cert CHAIN.pem --tls-key KEY.pem")
        return None
    return Certificate(options.tls_cert, options.tls_key)


def _leave_in_order(server: HttpServer) -> None:
    """Handle SIGTERM and SIGINT ourselves. Uvicorn raises a signal again after shutdown, and would kill the process before
    clean-up. A process started in the background ignores SIGINT until the server runs, although it is already reported as
    ready."""
    if threading.current_thread() is threading.main_thread():
        ignored = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else []
        for number in (signal.SIGTERM, signal.SIGHUP, *ignored):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))


def _type_assumptions(checked: CheckedOptions, given: GivenFlags) -> list[str]:
    """Return a sentence for each accelerator type whose speed is assumed. In --pretend, a probable typing error raises."""
    return type_assumptions(checked.driver.discover_cluster(), given_rates(given), typed=checked.pretend)


def _first_setup(options: ServeOptions, checked: CheckedOptions, before: HomeSetup | None) -> HomeSetup:
    """Return the setup: given options, and the home's last values for the others."""
    flags = checked.flags
    if flags.policy is not None:
        policy, placer = flags.policy, PLACER
    else:
        policy, placer = (before.policy, before.placer_name) if before is not None else (POLICY, PLACER)
    given = merge_given(before.flags if before is not None else {}, flags.given, checked.forget)
    return home_setup(options, policy, flags.placer or placer, checked, given)


def home_setup(options: ServeOptions, policy: str, placer: str, checked: CheckedOptions, flags: GivenFlags) -> HomeSetup:
    """Return the setup of the home. The placer of a pair such as `tiresias+pal` overrides `placer`."""
    base = Settings(
        lease_seconds=options.lease,
        lease_margin_seconds=options.lease_grace_seconds + LEASE_SLACK_SECONDS,
        retry_seconds=RETRY_SECONDS,
        node_timeout_seconds=FOREVER if options.ray is None else NODE_TIMEOUT_SECONDS,
        min_run_factor=MIN_RUN_FACTOR,
        learn_variability=True,
        resume_in_place=True,
        cordon_failing_starts=FAILING_STARTS,
    )
    context_gib = 0.0 if checked.pretend else LINK_SPEED.context_gib
    cluster = checked.driver.discover_cluster()
    return make_home_setup(policy, placer, base, flags, cluster, pretend=checked.pretend, context_gib=context_gib)


def last_setup(place: JournalLocation) -> HomeSetup | None:
    """Return the last setup of the home with this journal; None for a new home."""
    if not has_journal(place):
        return None
    with closing(open_journal(place, JOURNAL_CODEC)) as journal:
        return journal.setup()


class _Run:
    """Reasons to stop the server: the daemon failed, or another scheduler is leader."""

    def __init__(self) -> None:
        self.server: HttpServer | None = None
        self.failed: list[BaseException] = []
        self.wrote = False
        """Whether the daemon has written an entry to the journal."""
        self.lead = Lead()

    def lead_problem(self) -> str:
        """Return why this process may no longer be leader, or an empty text. Any thread may call this."""
        return "another scheduler leads" if any(isinstance(each, LeadershipLost) for each in self.failed) else self.lead.problem()

    def fall(self, problem: BaseException) -> None:
        """Stop the server because of this problem. Any thread may call this."""
        self.failed.append(problem)
        if self.server is not None:
            self.server.should_exit = True


def this_machine(pretend: str | None, otherwise: str = PRETEND) -> tuple[Cluster, list[list[Gpu]] | None]:
    """Return this machine's GPUs, one node for each type, with the memory for parked jobs. Pretend GPUs have no devices (None);
    they are used if `pretend` names them, and as `otherwise` on a machine without GPUs."""
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

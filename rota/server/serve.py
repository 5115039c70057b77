"""Puts a daemon together and serves it: the only place that knows both the scheduler and the socket."""

import fcntl
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import uvicorn

from rota import __version__
from rota.agent.gpus import find_gpus
from rota.beliefs.costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.beliefs.skew import Skews
from rota.compose.catalogue import make_placer, make_policy, split_pair
from rota.compose.words import words_for
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.when import AtEvents, AtRounds
from rota.errors import JournalError, OptionError, RotaError
from rota.live.daemon import Daemon
from rota.live.local import Local
from rota.model.cluster import Cluster, Node
from rota.model.codec import Plain
from rota.model.units import FOREVER
from rota.profiles.catalogue import Catalogue
from rota.server.api import make_app
from rota.wire.address import make_token, remove_address, write_address

PRETEND = "4xV100"
LEASE_SECONDS = 300.0
LEASE_GRACE_SECONDS = 60.0
"""What a job gets for saving its state when its lease is over."""
LEASE_SLACK_SECONDS = 30.0
RETRY_SECONDS = 5.0
LAUNCH_SECONDS = 1.0
"""What starting a process is believed to cost before any was started."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


WORDS = words_for()
"""What journals are written with."""

SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "policy")
"""What a journal keeps of the settings. The policy has its own place there."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `rota up` was asked for."""

    home: Path
    pretend: str | None = None
    listen: str = "127.0.0.1:7070"
    policy: str = "tiresias"
    placer: str | None = None
    round_seconds: float | None = None
    lease_seconds: float = LEASE_SECONDS
    lease_grace_seconds: float = LEASE_GRACE_SECONDS
    wait_for_place: bool = False
    cordon_slower_than: float | None = None


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Until it is told to stop. The jobs outlive it."""
    policy_named, placer_paired = split_pair(options.policy)
    policy = make_policy(policy_named)  # a mistake is said now, not by the first question
    if placer_paired is not None and options.placer is not None:
        raise OptionError("a placer is named twice.", field="placer", value=options.placer, hint=f"--policy {policy_named}")
    placer_named = options.placer or placer_paired or "packed"
    cluster, pretended = this_machine(options.pretend)
    settings = Settings(
        lease_seconds=options.lease_seconds,
        lease_margin_seconds=options.lease_grace_seconds + LEASE_SLACK_SECONDS,
        retry_seconds=RETRY_SECONDS,
        decide=AtRounds(round_seconds=options.round_seconds, at_events=True) if options.round_seconds else AtEvents(),
        packing=bool(getattr(policy, "packing", False)),
        wait_for_place=options.wait_for_place,
        learn_variability=True,
        cordon_slower_than=options.cordon_slower_than if options.cordon_slower_than is not None else FOREVER,
    )
    configuration = {
        "policy": policy_named,
        "placer": placer_named,
        "cluster": str(cluster),
        "pretend": pretended,
        "settings": plain_settings(settings),
    }
    driver = Local(options.home, cluster, lease_grace_seconds=options.lease_grace_seconds)
    scheduler = make_scheduler(configuration, driver.machines())
    with _only_one(options.home), _listening(options.listen) as (listener, url):
        failed: list[BaseException] = []
        daemon = Daemon(
            options.home,
            scheduler,
            WORDS,
            driver,
            worker=[sys.executable, "-m", "rota.server.worker", policy_named],
            configuration=configuration,
            on_failure=lambda problem: _fall(problem, failed, server),
        )
        token = make_token(options.home)
        app = make_app(daemon, token, allowed_hosts=LOOPBACK)
        server = _Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        daemon.start()
        write_address(options.home, url, os.getpid(), __version__)
        try:
            say(f"ready {url}")
            kind = "pretend GPUs" if pretended else "GPUs"
            say(f"{cluster.gpus} {kind}: {cluster}   policy {policy_named}, placer {placer_named}   home {options.home}")
            say("try: rota submit --gpus 1 -- python -c \"print('hello')\"")
            server.run(sockets=[listener])
        finally:
            remove_address(options.home)
            daemon.stop()
        if failed:
            raise RotaError(f"The scheduler stopped: {failed[0]}.", hint="rota up again; nothing that was acknowledged is lost")


class _Server(uvicorn.Server):
    """Sends those who wait for changes home first; otherwise a stop would wait for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.changes.close()
        await super().shutdown(sockets)


def plain_settings(settings: Settings) -> dict[str, Plain]:
    """As a journal keeps them; `make_scheduler` reads them."""
    return {name: WORDS.encode(getattr(settings, name)) for name in SETTINGS}


def make_scheduler(configuration: Mapping[str, Any], cluster: Cluster | None = None) -> Scheduler:
    """The scheduler that a configuration describes, the same when it is recorded and when it is replayed."""
    settings = configuration["settings"]
    for name in settings:
        if name not in SETTINGS:
            raise JournalError(
                f"the recorded settings name {name} ({settings[name]}), which this Rota does not know.",
                hint="use the Rota that wrote the journal",
            )
    return Scheduler(
        cluster if cluster is not None else Cluster.parse(configuration["cluster"]),
        make_placer(configuration["placer"]),
        Settings(**{name: WORDS.decode(value) for name, value in settings.items()}, policy=configuration["policy"]),
        rates=Rates(model=Catalogue()),
        costs=MoveCosts(launch_seconds=LAUNCH_SECONDS),
        skews=Skews(model=Catalogue()),
    )


def _fall(problem: BaseException, failed: list[BaseException], server: Any) -> None:
    failed.append(problem)
    server.should_exit = True


def this_machine(pretend: str | None) -> tuple[Cluster, bool]:
    """Its GPUs, one node per type; pretend ones where it has none, or where that is asked for."""
    if pretend is not None:
        return Cluster.parse(pretend), True
    found = find_gpus()
    if not found:
        return Cluster.parse(PRETEND), True
    types = list(dict.fromkeys(gpu.accelerator for gpu in found))
    if len(types) > 1:
        raise OptionError(
            "GPUs of several types in one machine are not in this version yet.",
            field="gpus",
            value=", ".join(types),
            hint="CUDA_VISIBLE_DEVICES picks those of one type",
        )
    name = socket.gethostname().split(".")[0] or "n1"
    node = Node(name, types[0], len(found))
    return Cluster.of([node], f"1x({len(found)}x{types[0]})"), False


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """One daemon per home. The lock goes with the process, however it ends."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (home / "daemon.lock").open("w")
    except OSError as problem:
        raise OptionError(
            f"cannot be used: {problem.strerror or problem}.", field="--home", value=str(home), hint="another --home"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RotaError(f"A scheduler is already running in {home}.", hint="rota jobs, or another --home") from None
        yield


@contextmanager
def _listening(listen: str) -> Iterator[tuple[socket.socket, str]]:
    """A socket that is bound, and its address as clients write it."""
    if listen.startswith("unix:"):
        path = listen.removeprefix("unix:")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            Path(path).unlink(missing_ok=True)
            listener.bind(path)
            Path(path).chmod(0o600)
        except OSError as problem:
            listener.close()
            raise OptionError(
                f"{problem.strerror or problem}.", field="--listen", value=listen, hint="unix:/tmp/rota.sock"
            ) from None
        listener.listen(128)
        try:
            yield listener, f"unix:{path}"
        finally:
            listener.close()
            Path(path).unlink(missing_ok=True)
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

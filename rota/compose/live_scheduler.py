"""The scheduler that the configuration of a journal describes: how a daemon, a replay and a simulation of a home are set up."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rota.compose.codecs import codec_for
from rota.compose.parse_tactics import make_tactics, recorded_tactics
from rota.compose.registry import make_placer
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import JournalError
from rota.live.given_beliefs import GivenBeliefs, fitting
from rota.model.cluster import Cluster, Node
from rota.model.codec import Plain

JOURNAL_CODEC = codec_for()
"""What journals are written with."""

SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "policy")
"""What a journal keeps of the settings. The policy has its own place there."""


def plain_settings(settings: Settings) -> dict[str, Plain]:
    """As a journal keeps them; `make_scheduler` reads them."""
    plain = {name: JOURNAL_CODEC.encode(getattr(settings, name)) for name in SETTINGS if name != "tactics"}
    return {**plain, "tactics": settings.tactics.text}


def make_scheduler(configuration: Mapping[str, Any]) -> Scheduler:
    """The scheduler that a configuration describes, the same when it is recorded and when it is replayed."""
    settings = configuration["settings"]
    for name in settings:
        if name not in SETTINGS:
            raise JournalError(
                f"the recorded settings name {name} ({settings[name]}), which this Rota does not know.",
                hint="use the Rota that wrote the journal",
            )
    decoded = {name: JOURNAL_CODEC.decode(value) for name, value in settings.items() if name != "tactics"}
    tactics = make_tactics(recorded_tactics(settings.get("tactics", "")))
    cluster, told = live_cluster(configuration), GivenBeliefs.of(configuration)
    return Scheduler(
        cluster,
        make_placer(configuration["placer"]),
        Settings(**decoded, tactics=tactics, policy=configuration["policy"]),
        rates=told.rates,
        costs=told.costs,
        variability=fitting(told.scores, cluster.gpus) if told.scores is not None else None,
        skews=told.skews,
    )


def live_cluster(configuration: Mapping[str, Any]) -> Cluster:
    """Homes of earlier versions have no nodes in their configuration."""
    if "nodes" not in configuration:
        return Cluster.parse(configuration["cluster"])
    return Cluster.of((Node(*each) for each in configuration["nodes"]), configuration["cluster"])

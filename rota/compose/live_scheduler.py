"""Setups of live schedulers: made from flags, and as the journal of a home keeps them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rota.compose.codecs import codec_for
from rota.compose.live_fields import LIVE
from rota.compose.make_setup import find_parts, make_setup
from rota.compose.parse_tactics import make_tactics, recorded_tactics
from rota.compose.registry import make_placer, split_pair
from rota.compose.study import Study
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import JournalError
from rota.live.cluster_changes import pretend_devices
from rota.live.given_beliefs import GivenFlag, GivenFlags, given_beliefs, given_tenants, scored_devices
from rota.live.home_setup import HomeSetup
from rota.model.cluster import Cluster, Node
from rota.model.codec import Form, Plain
from rota.model.old_names import OLD_STUDY_FIELDS, current_fields

SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "policy")
"""Settings that a journal keeps. The policy has its own place there."""

_CODEC = codec_for()


def make_scheduler(setup: HomeSetup) -> Scheduler:
    """Return the scheduler of a home in which nothing has happened yet."""
    return Scheduler.of(setup.cluster, setup)


def make_home_setup(
    policy: str, placer: str, base: Settings, flags: GivenFlags, cluster: Cluster, *, pretend: bool, context_gib: float = 0.0
) -> HomeSetup:
    """Return the setup of a home. The placer of a pair such as `tiresias+pal` overrides `placer`. Flags override `base`."""
    policy, pair = split_pair(policy)
    study = Study(
        trace="", policy=policy, placer=pair or placer, **{name: flag.text for name, flag in flags.items() if name in LIVE}
    )
    tenants = given_tenants(flags)
    parts = find_parts(study, tenants=tenants)
    made = make_setup(study, parts, base, given_beliefs(flags, context_gib, ()), tenants)
    return HomeSetup(
        settings=made.settings,
        placer=made.placer,
        given=made.given,
        tenants=tenants,
        placer_name=parts.placer_name,
        cluster=cluster,
        pretend=pretend,
        flags=flags,
        context_gib=context_gib,
    )


# Journals ------------------------------------------------------------------------------------------------------------


def plain_setup(setup: HomeSetup) -> dict[str, Plain]:
    """Return a setup as a journal keeps it."""
    return {
        "policy": setup.policy,
        "placer": setup.placer_name,
        "cluster": str(setup.cluster),
        "nodes": [
            [node.name, node.accelerator, node.gpus, node.rack, *([] if node.host_gib is None else [node.host_gib])]
            for node in setup.cluster.nodes
        ],
        "pretend": setup.pretend,
        "context_gib": setup.context_gib,
        "settings": plain_settings(setup.settings),
        "given": plain_flags(setup.flags),
        "devices": {str(number): list(names) for number, names in enumerate(setup.devices)},
    }


def read_setup(plain: Mapping[str, Any]) -> HomeSetup:
    """Return a setup as any version kept it: with or without nodes, memory, flags and names of GPUs. Flags were under
    `told` until version 0.1."""
    text, nodes = plain["cluster"], plain.get("nodes")
    cluster = Cluster.parse(text) if nodes is None else Cluster.of((Node(*each) for each in nodes), text)
    pretend, context_gib = bool(plain["pretend"]), plain.get("context_gib", 0.0)
    flags = read_kept_flags(plain.get("given", plain.get("told", {})))
    kept = sorted(plain.get("devices", {}).items(), key=lambda each: int(each[0]))
    devices = tuple(tuple(names) for _, names in kept) or (pretend_devices(cluster) if pretend else ())
    # Earlier versions named the GPUs that had scores, since those that joined got theirs later.
    scored = plain.get("scored", scored_devices(devices))
    return HomeSetup(
        settings=_read_settings(plain["settings"], plain["policy"]),
        placer=make_placer(plain["placer"]),
        given=given_beliefs(flags, context_gib, scored),
        tenants=given_tenants(flags),
        placer_name=plain["placer"],
        cluster=cluster,
        pretend=pretend,
        flags=flags,
        context_gib=context_gib,
        devices=devices,
    )


def plain_settings(settings: Settings) -> dict[str, Plain]:
    """Return settings as a journal keeps them."""
    plain = {name: _CODEC.encode(getattr(settings, name)) for name in SETTINGS if name != "tactics"}
    return {**plain, "tactics": settings.tactics.text}


def _read_settings(plain: Mapping[str, Plain], policy: str) -> Settings:
    plain = current_fields(Settings.__name__, plain)
    for name in plain:
        if name not in SETTINGS:
            raise JournalError(
                f"the recorded settings name {name} ({plain[name]}), which this Rota does not know.",
                hint="use the Rota that wrote the journal",
            )
    decoded = {name: _CODEC.decode(value) for name, value in plain.items() if name != "tactics"}
    return Settings(**decoded, tactics=make_tactics(recorded_tactics(plain.get("tactics", ""))), policy=policy)


def plain_flags(flags: GivenFlags) -> dict[str, Plain]:
    """Return flags as a journal keeps them."""
    return {
        name: {"text": flag.text} if flag.value is None else {"text": flag.text, "value": flag.value}
        for name, flag in flags.items()
    }


def read_kept_flags(plain: Mapping[str, Mapping[str, Plain]]) -> GivenFlags:
    """Return flags from a journal. Earlier versions called the text `said`."""
    return {
        OLD_STUDY_FIELDS.get(name, name): GivenFlag(each["text"] if "text" in each else each["said"], each.get("value"))
        for name, each in plain.items()
    }


JOURNAL_CODEC = codec_for(forms={HomeSetup: Form(plain_setup, read_setup)})
"""Codec of journals."""

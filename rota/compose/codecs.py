"""Codecs of snapshots and journals: the core's types, sources of rates, and the memory of a policy."""

from collections.abc import Mapping

from rota.core.snapshot import make_codec
from rota.live.views import memory_types
from rota.model.codec import Codec, Form
from rota.model.policy import Policy
from rota.profiles.scaling import SOURCES


def codec_for(policy: Policy | None = None, forms: Mapping[type, Form] | None = None) -> Codec:
    """Return the codec for a policy that runs in this process. A daemon needs no policy, since its policy's memory is a text."""
    return make_codec(*SOURCES, *(memory_types(policy) if policy is not None else ()), forms=forms)

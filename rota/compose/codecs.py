"""What snapshots and journals are written with: the core's types, sources of rates, and what a policy remembers."""

from rota.core.snapshot import make_codec
from rota.live.views import memory_types
from rota.model.codec import Codec
from rota.model.policy import Policy
from rota.profiles.scaling import SOURCES


def codec_for(policy: Policy | None = None) -> Codec:
    """For a policy that is asked in this process. In a daemon what it remembers is a text already, and no policy is needed."""
    return make_codec(*SOURCES, *(memory_types(policy) if policy is not None else ()))

"""Who sends a request: a parameter of the API's functions."""

from typing import Annotated

from fastapi import Depends, Request

from rota.server.auth import ACTOR
from rota.wire.actor import Actor


def actor_of(request: Request) -> Actor:
    """Return who sent the request. The guard refuses requests of unknown users."""
    actor: Actor = request.scope[ACTOR]
    return actor


By = Annotated[Actor, Depends(actor_of)]

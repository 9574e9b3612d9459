"""Receivers: addresses that start an action when they are called."""

from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.actions import Verb
from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document

WEBHOOK = "webhook"
TYPES = (WEBHOOK, "message")
STARTED = (  # what a receiver can start: whatever needs nothing but numbers and words to be told
    Verb.CLUSTER_SCALE_OUT,
    Verb.CLUSTER_SCALE_IN,
    Verb.CLUSTER_RESIZE,
    Verb.CLUSTER_CHECK,
    Verb.CLUSTER_RECOVER,
    Verb.CLUSTER_DELETE,
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Whoever knows its id may start its action, with the roles of whoever made it."""

    id: str
    name: str
    type: str
    owner: Owner
    created_at: datetime
    cluster_id: str | None = None
    action: str | None = None
    params: Document = field(default_factory=dict)
    roles: frozenset[str] = frozenset()
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """A process that does turns of actions, as far as it was heard of."""

    id: str
    host: str
    updated_at: datetime

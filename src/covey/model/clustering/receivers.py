"""Receivers: webhooks that start an action on a cluster."""

from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.actions import Verb
from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document

WEBHOOK = "webhook"
RECEIVER_TYPES = (WEBHOOK, "message")
RECEIVER_ACTIONS = (  # those whose inputs are numbers and words only
    Verb.CLUSTER_SCALE_OUT,
    Verb.CLUSTER_SCALE_IN,
    Verb.CLUSTER_RESIZE,
    Verb.CLUSTER_CHECK,
    Verb.CLUSTER_RECOVER,
    Verb.CLUSTER_DELETE,
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """A caller that knows the id starts the action, with the roles of the receiver's creator."""

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

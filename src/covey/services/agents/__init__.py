"""Agents of hosts: what they ask and report, and the calls that workers leave for them."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.services.agents.registrations import RULE, Registrations
from covey.services.agents.work import AgentWork


@dataclass(frozen=True, slots=True)
class Agents:
    """What the agent API calls."""

    registrations: Registrations
    work: AgentWork
    heartbeat_s: float

    def require(self, actor: Actor) -> None:
        """Raise Forbidden for an actor who may not be an agent, before the request body is read."""
        self.registrations.access.require(actor, RULE)

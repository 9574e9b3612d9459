"""Agents of hosts: what they ask and report, and the calls that workers leave for them."""

from dataclasses import dataclass

from covey.services.agents.registrations import Registrations
from covey.services.agents.work import AgentWork


@dataclass(frozen=True, slots=True)
class Agents:
    """What the agent API calls."""

    registrations: Registrations
    work: AgentWork
    heartbeat_s: float

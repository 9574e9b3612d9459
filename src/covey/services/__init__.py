"""Use cases: a module for each noun, a function for each verb."""

from dataclasses import dataclass

from covey.services.aggregates import Aggregates
from covey.services.explaining import Explaining
from covey.services.flavors import Flavors
from covey.services.groups import Groups
from covey.services.histories import Histories
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.moves import Moves
from covey.services.power import Power
from covey.services.quotas import Quotas
from covey.services.servers import Servers


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that can be asked of Covey."""

    aggregates: Aggregates
    explaining: Explaining
    flavors: Flavors
    groups: Groups
    histories: Histories
    hosts: Hosts
    images: Images
    moves: Moves
    power: Power
    quotas: Quotas
    servers: Servers

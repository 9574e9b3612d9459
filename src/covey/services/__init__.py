"""Services: a module for each resource, a function for each operation on it."""

from dataclasses import dataclass

from covey.services.aggregates import Aggregates
from covey.services.audits import Audits
from covey.services.clustering import Clustering
from covey.services.dashboard import Dashboard
from covey.services.explanations import Explanations
from covey.services.flavors import Flavors
from covey.services.groups import Groups
from covey.services.histories import Histories
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.memberships import Memberships
from covey.services.moves import Moves
from covey.services.placement import Placement
from covey.services.power import Power
from covey.services.previews import Previews
from covey.services.quotas import Quotas
from covey.services.rebalances import Rebalances
from covey.services.scopes import Scopes
from covey.services.servers import Servers


@dataclass(frozen=True, slots=True)
class Services:
    """The services that the APIs call."""

    aggregates: Aggregates
    audits: Audits
    clustering: Clustering
    dashboard: Dashboard
    explanations: Explanations
    flavors: Flavors
    groups: Groups
    histories: Histories
    hosts: Hosts
    images: Images
    memberships: Memberships
    moves: Moves
    placement: Placement
    power: Power
    previews: Previews
    quotas: Quotas
    rebalances: Rebalances
    scopes: Scopes
    servers: Servers

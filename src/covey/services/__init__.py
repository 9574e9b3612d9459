"""Services: a module for each resource, a function for each operation on it."""

from dataclasses import dataclass

from covey.services.agents import Agents
from covey.services.aggregates import Aggregates
from covey.services.audits import Audits
from covey.services.clustering import Clustering
from covey.services.consoles import Consoles
from covey.services.dashboard import Dashboard
from covey.services.drains import Drains
from covey.services.explanations import Explanations
from covey.services.flavors import Flavors
from covey.services.group_evacuations import GroupEvacuations
from covey.services.groups import Groups
from covey.services.host_ids import HostIds
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.instance_actions import InstanceActionLog
from covey.services.instances import Instances
from covey.services.keypairs import KeyPairs
from covey.services.live_migrations import LiveMigrations
from covey.services.memberships import Memberships
from covey.services.moves import Moves
from covey.services.nova_groups import NovaGroups
from covey.services.placement import Placement
from covey.services.power import Power
from covey.services.previews import Previews
from covey.services.quotas import Quotas
from covey.services.rebalances import Rebalances
from covey.services.scopes import Scopes
from covey.services.servers import Servers
from covey.services.shelving import Shelving


@dataclass(frozen=True, slots=True)
class Services:
    """The services that the APIs call."""

    agents: Agents
    aggregates: Aggregates
    audits: Audits
    clustering: Clustering
    consoles: Consoles
    dashboard: Dashboard
    drains: Drains
    explanations: Explanations
    flavors: Flavors
    groups: Groups
    host_ids: HostIds
    hosts: Hosts
    images: Images
    instance_actions: InstanceActionLog
    instances: Instances
    key_pairs: KeyPairs
    live_migrations: LiveMigrations
    memberships: Memberships
    moves: Moves
    nova_groups: NovaGroups
    placement: Placement
    power: Power
    previews: Previews
    quotas: Quotas
    group_evacuations: GroupEvacuations
    rebalances: Rebalances
    scopes: Scopes
    servers: Servers
    shelving: Shelving

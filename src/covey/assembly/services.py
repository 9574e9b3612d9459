"""Builds the services that answer requests."""

from functools import partial

from oslo_config import cfg

from covey import remote_api
from covey.assembly.parts import TENANT_MESSAGES, Parts
from covey.clock_and_ids import new_uuid, random_uuid
from covey.model.inventory import ResourceClass
from covey.ports import Accounts
from covey.request_slots import ProjectLimit
from covey.services import Services
from covey.services.agents import Agents
from covey.services.agents.registrations import Registrations
from covey.services.agents.work import AgentWork
from covey.services.aggregates import Aggregates
from covey.services.audits import Audits
from covey.services.clustering import Clustering
from covey.services.consoles import Consoles
from covey.services.dashboard import Dashboard
from covey.services.drains import Drains
from covey.services.explanations import Explanations
from covey.services.host_ids import HostIds
from covey.services.hosts import Hosts
from covey.services.instance_actions import InstanceActionLog
from covey.services.instances import Instances
from covey.services.keypairs import KeyPairs
from covey.services.live_migrations import LiveMigrations
from covey.services.memberships import Memberships
from covey.services.nova_groups import NovaGroups
from covey.services.nova_sync.nova import Nova
from covey.services.placement import Placement
from covey.services.previews import Previews
from covey.services.rebalances import Rebalances, TenantLimits
from covey.services.scopes import Scopes
from covey.services.shelving import Shelving

_NOVA_TIMEOUT_S = 10.0


def build_services(parts: Parts, accounts: Accounts) -> Services:
    """Build the services of a process on its shared parts."""
    conf, store, access, now = parts.conf, parts.store, parts.access, parts.clock
    scheduler = conf.scheduler
    return Services(
        agents=_agents(parts),
        aggregates=Aggregates(store, access, now, new_uuid),
        audits=Audits(store, access, parts.groups, parts.live),
        clustering=Clustering.build(
            store, access, accounts, now, random_uuid, scheduler.default_availability_zone, parts.clustering_limits
        ),
        consoles=Consoles(store, parts.servers, parts.driver),
        dashboard=Dashboard.build(
            store,
            access,
            now,
            parts.live,
            parts.groups,
            parts.servers,
            conf.api.explain_to_tenants,
            isolate_aggregates=scheduler.enable_forbidden_aggregates_filter,
        ),
        drains=Drains(store, access, now, new_uuid, parts.drain_planner),
        explanations=Explanations(store, access, parts.live, parts.servers),
        flavors=parts.flavors,
        groups=parts.groups,
        host_ids=HostIds(store),
        hosts=Hosts(store, access, now, scheduler.default_availability_zone),
        images=parts.images,
        instance_actions=InstanceActionLog(store, access, parts.servers),
        instances=Instances(store, access, conf.api.explain_to_tenants),
        key_pairs=KeyPairs(store, access, now, parts.quotas),
        live_migrations=LiveMigrations(store, now, parts.servers),
        memberships=Memberships(
            store,
            access,
            parts.live,
            parts.groups,
            parts.servers,
            parts.quotas,
            parts.notifications,
            conf.quota.max_members_per_group,
        ),
        moves=parts.moves,
        nova_groups=NovaGroups(store, now, parts.request_slots, partial(_nova_of_caller, conf), conf.nova.url),
        placement=Placement.build(
            store, access, now, new_uuid, parts.request_slots, parts.live, conf.quota.max_members_per_group
        ),
        power=parts.power,
        previews=Previews(
            store,
            access,
            parts.groups,
            parts.servers,
            parts.live,
            parts.quotas,
            parts.tenant_message,
            TENANT_MESSAGES["counts"],
            exact=conf.api.explain_to_tenants == "counts",
            max_members=conf.quota.max_members_per_group,
        ),
        quotas=parts.quotas,
        group_evacuations=parts.group_evacuations,
        rebalances=Rebalances(
            store,
            access,
            now,
            new_uuid,
            parts.groups,
            parts.planner,
            ProjectLimit(scheduler.max_rebalance_searches, 1),
            TenantLimits(scheduler.tenant_rebalance_max_moves, scheduler.tenant_rebalance_interval_s),
        ),
        scopes=Scopes(store, access, now, new_uuid),
        servers=parts.servers,
        shelving=Shelving(store, access, now, parts.quotas, parts.moves),
    )


def _nova_of_caller(conf: cfg.ConfigOpts, url: str, token: str) -> Nova:
    """Return the Compute API that a caller asks by its own token, within the time of a request."""
    address = remote_api.without_project(url)
    return Nova(
        remote_api.connect_by_token("compute", conf, "nova", url=address, token=token, timeout_s=_NOVA_TIMEOUT_S)
    )


def _agents(parts: Parts) -> Agents:
    conf, store, access, now = parts.conf, parts.store, parts.access, parts.clock
    ratios = {str(kind): ratio for kind, ratio in default_ratios(conf).items()}
    registrations = Registrations(
        *(store, access, now, new_uuid, parts.notifications, ratios, parts.request_slots, parts.polls),
        auto_register=conf.agents.auto_register,
        binds_by_name=conf.agents.binding == "name",
    )
    work = AgentWork(store, access, now, parts.polls, parts.images.files, parts.request_slots)
    return Agents(registrations, work, conf.agents.heartbeat_s)


def default_ratios(conf: cfg.ConfigOpts) -> dict[ResourceClass, float]:
    """Return the overcommit ratios of new hosts, by resource class."""
    return {
        ResourceClass.VCPU: conf.scheduler.cpu_allocation_ratio,
        ResourceClass.MEMORY_MB: conf.scheduler.ram_allocation_ratio,
        ResourceClass.DISK_GB: conf.scheduler.disk_allocation_ratio,
    }

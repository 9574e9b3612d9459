"""Instances of Nova as Covey knows them: their group, their compute nodes, and why policies refused them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from covey.model.access import Actor, Target
from covey.model.errors import CoveyError, NotFound, ReadOnly
from covey.model.groups import Group
from covey.model.ids import GroupId, ProjectId, UserId
from covey.model.instance_refusals import InstanceRefusal, RefusedStep
from covey.model.nova import NovaServer
from covey.ports import Access
from covey.services.hosts import SEES_HOSTS
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:"
_SHOW, _EXPLAIN = "covey:placement:show", "covey:placement:explain"
_MAX_REFUSALS = 200
_BEGINNINGS = {
    RefusedStep.RANKING: "The policies of its server group admit no host:",
    RefusedStep.CLAIM: "The policies of its server group refused the hosts that Nova claimed:",
}


@dataclass(frozen=True, slots=True)
class ShownRefusal:
    """A refusal as the caller may see it; numbers of hosts are None, and reasons empty, where they are hidden."""

    at: datetime
    message: str
    hosts: int | None
    reasons: Sequence[tuple[str, int | None]]


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance. Name and status are None where the mirror does not have it; hosts are empty for tenants."""

    id: str
    name: str | None
    status: str | None
    project_id: str
    group: GroupId | None
    is_placed: bool
    hosts: tuple[str, ...] = ()
    refusal: ShownRefusal | None = None


@dataclass(frozen=True, slots=True)
class Instances:
    """Reads instances. `detail` is how much tenants see of refusals: counts, reasons or none."""

    store: Store
    access: Access
    detail: str

    def get(self, actor: Actor, instance: str) -> Instance:
        """Raises NotFound, also for an instance of another project; Forbidden if the rule for explanations denies."""
        with self.store.read() as tx:
            mirrored = tx.nova_mirror.find_servers([instance]).get(instance)
            refusal, member = tx.instance_refusals.by_id(instance), tx.group_consumers.find([instance]).get(instance)
            group = _group(tx, member.group if member else refusal.group if refusal else None)
            target = _target(mirrored, group)
            if target is None or not self.access.allows(actor, f"{_RULE}show", target):
                raise NotFound(f"Instance {instance} could not be found.")
            self.access.require(actor, _SHOW, target)
            hosts = tx.compute_nodes.names_of(instance)
        operator = self.access.allows(actor, _EXPLAIN)
        return Instance(
            instance,
            mirrored.name if mirrored else None,
            mirrored.status if mirrored else None,
            target.project_id or "",
            group.id if group else None,
            is_placed=bool(hosts),
            hosts=tuple(hosts) if operator else (),
            refusal=None if refusal is None else self._shown(refusal, operator=operator),
        )

    def refused(self, actor: Actor) -> list[Instance]:
        """Return the instances without a host that policies refused, of the project or of all, newest first."""
        project = self._project(actor)
        operator = self.access.allows(actor, _EXPLAIN)
        with self.store.read() as tx:
            found = tx.instance_refusals.unplaced(project, _MAX_REFUSALS)
            mirrored = tx.nova_mirror.find_servers([each.instance for each in found])
            groups = {group.id: group for group in tx.groups.by_ids(sorted({each.group for each in found}))}
        return [self._refused(each, mirrored, groups, operator=operator) for each in found]

    def find(self, actor: Actor, limit: int) -> list[tuple[NovaServer, GroupId | None]]:
        """Return mirrored instances of the project, or of all, by name, with their groups; tenants see no hosts."""
        with self.store.read() as tx:
            return tx.nova_mirror.page_of_servers(self._project(actor), limit)

    def _project(self, actor: Actor) -> ProjectId | None:
        """Return the project whose instances the actor sees; None for all. Raises Forbidden."""
        if self.access.allows(actor, f"{_RULE}detail:get_all_tenants"):
            return None
        self.access.require(actor, f"{_RULE}detail", Target(project_id=actor.project_id))
        return actor.own_project

    def _refused(
        self,
        refusal: InstanceRefusal,
        mirrored: Mapping[str, NovaServer],
        groups: Mapping[GroupId, Group],
        *,
        operator: bool,
    ) -> Instance:
        server = mirrored.get(refusal.instance)
        return Instance(
            refusal.instance,
            server.name if server else None,
            server.status if server else None,
            groups[refusal.group].project_id,
            refusal.group,
            is_placed=False,
            refusal=self._shown(refusal, operator=operator),
        )

    def _shown(self, refusal: InstanceRefusal, *, operator: bool) -> ShownRefusal:
        beginning = _BEGINNINGS[refusal.step]
        if operator or self.detail == "counts":
            reasons = [(reason.words, reason.count) for reason in refusal.reasons]
            return ShownRefusal(refusal.at, f"{beginning} {refusal.sentence()}.", refusal.hosts, reasons)
        if self.detail == "reasons":
            hidden = [(reason.many, None) for reason in refusal.reasons]
            return ShownRefusal(refusal.at, f"{beginning} {refusal.without_numbers()}.", None, hidden)
        return ShownRefusal(refusal.at, f"{beginning[:-1]}.", None, ())


def _group(tx: Transaction, group: GroupId | None) -> Group | None:
    return None if group is None else tx.groups.by_id(group)


def _target(mirrored: NovaServer | None, group: Group | None) -> Target | None:
    """Return the owner of an instance: as Nova says, or else the owner of its group; None for an unknown instance."""
    if mirrored is not None:
        return Target(project_id=ProjectId(mirrored.project_id), user_id=UserId(mirrored.user_id))
    return None if group is None else Target(project_id=group.project_id)


def missing_server(tx: Transaction, access: Access, actor: Actor, server: str, *, changes: bool) -> CoveyError:
    """Return the error of a request for an unknown server. Of an instance of Nova it says where it is.

    A request that changes such an instance, which the actor may see, is ReadOnly, any other NotFound.
    """
    mirrored = tx.nova_instances.server(server)
    message = f"Instance {server} could not be found."
    target = _target(mirrored, None)
    if mirrored is None or target is None or not access.allows(actor, f"{_RULE}show", target):
        return NotFound(message)
    address = tx.nova_mirror.address() if access.allows(actor, SEES_HOSTS) else ""
    verb = "changes" if changes else "shows"
    sentence = f"The instance {mirrored.name} belongs to Nova: `openstack server` {verb} it{address}."
    return ReadOnly(sentence) if changes else NotFound(f"{message} {sentence}")

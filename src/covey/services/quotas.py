"""Quotas and limits: how much a project may have, and has."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.errors import Invalid
from covey.model.ids import ProjectId
from covey.model.quotas import UNLIMITED
from covey.ports import Access
from covey.storage.store import Store, Transaction

_SETS, _CLASSES = "os_compute_api:os-quota-sets:", "os_compute_api:os-quota-class-sets:"
_DEFAULT_CLASS = "default"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit, and how much of it is used."""

    limit: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class Quotas:
    """What can be done with quotas. `defaults` are the configured ones, in the order of the wire."""

    store: Store
    access: Access
    defaults: Mapping[str, int]

    def of_project(self, actor: Actor, project: ProjectId, rule: str = "show") -> dict[str, Quota]:
        self.access.require(actor, _SETS + rule, Target(project_id=project))
        with self.store.read() as tx:
            return self._quotas(tx, project)

    def default(self, actor: Actor) -> dict[str, int]:
        """What a project gets that nobody set anything for."""
        self.access.require(actor, f"{_SETS}defaults")
        with self.store.read() as tx:
            return self._defaults(tx)

    def update(
        self, actor: Actor, project: ProjectId, limits: Mapping[str, int], *, force: bool = False
    ) -> dict[str, Quota]:
        """Sets limits. Raises Invalid for one below what is used, unless forced."""
        self.access.require(actor, f"{_SETS}update", Target(project_id=project))
        with self.store.write() as tx:
            if not force:
                _refuse_below_use(self._quotas(tx, project), limits)
            tx.quotas.set_for_project(project, limits)
            return self._quotas(tx, project)

    def reset(self, actor: Actor, project: ProjectId) -> None:
        """Back to the defaults."""
        self.access.require(actor, f"{_SETS}delete", Target(project_id=project))
        with self.store.write() as tx:
            tx.quotas.reset_project(project)

    def of_class(self, actor: Actor, name: str) -> dict[str, int]:
        self.access.require(actor, f"{_CLASSES}show")
        with self.store.read() as tx:
            return self._class(tx, name)

    def update_class(self, actor: Actor, name: str, limits: Mapping[str, int]) -> dict[str, int]:
        """Sets limits of a class; those of the class `default` are everybody's defaults."""
        self.access.require(actor, f"{_CLASSES}update")
        with self.store.write() as tx:
            tx.quotas.set_for_class(name, limits)
            return self._class(tx, name)

    def limits(self, actor: Actor, project: ProjectId | None) -> dict[str, Quota]:
        """The actor's own limits and use, or another project's."""
        self.access.require(actor, "os_compute_api:limits")
        if project is not None:
            self.access.require(actor, "os_compute_api:limits:other_project", Target(project_id=project))
        with self.store.read() as tx:
            return self._quotas(tx, project or actor.project_id)

    def limits_in(self, tx: Transaction, project: ProjectId) -> dict[str, int]:
        """A project's limits, as a transaction sees them."""
        return self._defaults(tx) | dict(tx.quotas.of_project(project))

    def _quotas(self, tx: Transaction, project: ProjectId) -> dict[str, Quota]:
        limits = self.limits_in(tx, project)
        instances, cores, ram = tx.claims.usage(project)
        used = {"instances": instances, "cores": cores, "ram": ram, "server_groups": tx.groups.count(project)}
        return {resource: Quota(limits[resource], used.get(resource, 0)) for resource in self.defaults}

    def _defaults(self, tx: Transaction) -> dict[str, int]:
        return self._class(tx, _DEFAULT_CLASS)

    def _class(self, tx: Transaction, name: str) -> dict[str, int]:
        return dict(self.defaults) | dict(tx.quotas.of_class(name))


def _refuse_below_use(quotas: Mapping[str, Quota], limits: Mapping[str, int]) -> None:
    for resource, limit in limits.items():
        used = quotas[resource].used
        if limit != UNLIMITED and limit < used:
            raise Invalid(
                f"Quota limit {limit} for {resource} must be greater than or equal to already used and reserved {used}."
            )

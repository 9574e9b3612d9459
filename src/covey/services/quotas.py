"""Quotas: limits and usage of projects and quota classes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.errors import Invalid, OverQuota, StaleClaim
from covey.model.ids import ProjectId
from covey.model.quotas import CLASS, UNLIMITED, QuotaUse, class_of_quota
from covey.ports import Access
from covey.storage.store import Store, Transaction

_SETS, _CLASSES = "os_compute_api:os-quota-sets:", "os_compute_api:os-quota-class-sets:"
_DEFAULT_CLASS = "default"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit and its current usage."""

    limit: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class Quotas:
    """Operations on quotas. `defaults` are the configured limits in the order of API responses."""

    store: Store
    access: Access
    defaults: Mapping[str, int]

    def of_project(self, actor: Actor, project: ProjectId, rule: str = "show") -> dict[str, Quota]:
        self.access.require(actor, _SETS + rule, Target(project_id=project))
        with self.store.read() as tx:
            return self._quotas(tx, project)

    def default(self, actor: Actor) -> dict[str, int]:
        """Return the limits of projects without limits of their own."""
        self.access.require(actor, f"{_SETS}defaults")
        with self.store.read() as tx:
            return self._defaults(tx)

    def update(
        self, actor: Actor, project: ProjectId, limits: Mapping[str, int], *, force: bool = False
    ) -> dict[str, Quota]:
        """Set limits. Raises Invalid for an unknown resource class, and for a limit below the usage, unless forced."""
        self.access.require(actor, f"{_SETS}update", Target(project_id=project))
        with self.store.write() as tx:
            if not force:
                tx.topology.begin_change()  # a claim holds the token from before it reads the limits to its commit
            _reject_unknown_classes(tx, limits)
            if not force:
                _reject_below_usage(self._used(tx, project, limits), limits)
            tx.quotas.set_for_project(project, limits)
            return self._quotas(tx, project)

    def reset(self, actor: Actor, project: ProjectId) -> None:
        """Remove the project's own limits, so that the defaults apply."""
        self.access.require(actor, f"{_SETS}delete", Target(project_id=project))
        with self.store.write() as tx:
            tx.quotas.reset_project(project)

    def of_class(self, actor: Actor, name: str) -> dict[str, int]:
        self.access.require(actor, f"{_CLASSES}show")
        with self.store.read() as tx:
            return self._class(tx, name)

    def update_class(self, actor: Actor, name: str, limits: Mapping[str, int]) -> dict[str, int]:
        """Set limits of a quota class; the class `default` applies to every project without limits of its own.

        Raises Invalid for an unknown resource class.
        """
        self.access.require(actor, f"{_CLASSES}update")
        with self.store.write() as tx:
            _reject_unknown_classes(tx, limits)
            tx.quotas.set_for_class(name, limits)
            return self._class(tx, name)

    def limits(self, actor: Actor, project: ProjectId | None) -> dict[str, Quota]:
        """Return limits and usage of the actor's project, or of another one, but for those of resource classes."""
        self.access.require(actor, "os_compute_api:limits")
        if project is not None:
            self.access.require(actor, "os_compute_api:limits:other_project", Target(project_id=project))
        with self.store.read() as tx:
            return self._quotas(tx, project or actor.own_project, of_classes=False)

    def limits_in(self, tx: Transaction, project: ProjectId) -> dict[str, int]:
        """Return a project's limits, read in the caller's transaction."""
        return self._defaults(tx) | dict(tx.quotas.of_project(project))

    def use_in(self, tx: Transaction, project: ProjectId, names: Collection[str]) -> QuotaUse:
        """Return a project's limits of these quotas, where one applies, and the usage of servers."""
        limits = self.limits_in(tx, project)
        limits = {name: limits[name] for name in names if limits.get(name, UNLIMITED) != UNLIMITED}
        return QuotaUse(limits, _used_by_servers(tx, project, limits) if limits else {})

    def require_left(self, tx: Transaction, project: ProjectId, growth: Mapping[str, int]) -> dict[str, int]:
        """Return the part of the growth of a project's usage that a limit applies to. Raises OverQuota."""
        use = self.use_in(tx, project, growth)  # not locked: `charge` checks again
        for name, limit in use.limits.items():
            if use.used[name] + growth[name] > limit:
                raise OverQuota(
                    f"Quota exceeded for {name}: Requested {growth[name]}, "
                    f"but already used {use.used[name]} of {limit} {name}"
                )
        return {name: growth[name] for name in use.limits}

    def charge(self, tx: Transaction, project: ProjectId, growth: Mapping[str, int]) -> None:
        """Count the growth from now on. Raises StaleClaim when a concurrent request used up the quota."""
        tx.claims.add_usage(project, 0, growth.get("cores", 0), growth.get("ram", 0))  # locks the project
        use = self.use_in(tx, project, growth)
        if any(use.used[name] > limit for name, limit in use.limits.items()):
            raise StaleClaim(frozenset())

    def _quotas(self, tx: Transaction, project: ProjectId, *, of_classes: bool = True) -> dict[str, Quota]:
        limits = self.limits_in(tx, project)
        classes = sorted(name for name in limits if name.startswith(CLASS)) if of_classes else []
        used = self._used(tx, project, classes)
        return {name: Quota(limits[name], used.get(name, 0)) for name in (*self.defaults, *classes)}

    def _used(self, tx: Transaction, project: ProjectId, names: Iterable[str]) -> dict[str, int]:
        return _used_by_servers(tx, project, names) | {"server_groups": tx.groups.count(project)}

    def _defaults(self, tx: Transaction) -> dict[str, int]:
        return self._class(tx, _DEFAULT_CLASS)

    def _class(self, tx: Transaction, name: str) -> dict[str, int]:
        return dict(self.defaults) | dict(tx.quotas.of_class(name))


def release_quota(tx: Transaction, project: ProjectId, amounts: tuple[int, int]) -> None:
    """Release the cores and memory that a finished move had added to a project's usage."""
    if any(amounts):
        cores, ram = amounts
        tx.claims.add_usage(project, 0, -cores, -ram)


def _used_by_servers(tx: Transaction, project: ProjectId, names: Iterable[str]) -> dict[str, int]:
    """Return the stored usage, and the usage of those of the quotas that limit resource classes."""
    classes = [name for name in names if name.startswith(CLASS)]
    return tx.claims.usage(project) | (tx.quotas.held({project: classes})[project] if classes else {})


def _reject_unknown_classes(tx: Transaction, limits: Mapping[str, int]) -> None:
    names = {found for name in limits if (found := class_of_quota(name)) is not None}
    if unknown := names - tx.resource_classes.known(names, lock=True):
        raise Invalid(
            f"No such resource class: {', '.join(sorted(unknown))}. A quota may limit each class that the Placement "
            "API lists (GET /resource_classes) but VCPU and PCPU, which cores counts, and MEMORY_MB, which ram counts."
        )


def _reject_below_usage(usage: Mapping[str, int], limits: Mapping[str, int]) -> None:
    for resource, limit in limits.items():
        used = usage.get(resource, 0)
        if limit != UNLIMITED and limit < used:
            raise Invalid(
                f"Quota limit {limit} for {resource} must be greater than or equal to already used and reserved {used}."
            )

"""Disables the compute services of Nova whose hosts are drained, and enables them when the drain is undone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from covey.model.drains import Drain, DrainStatus
from covey.model.errors import CoveyError, OperationInProgress
from covey.model.nova import NovaNode
from covey.model.server_moves import LONGEST_OUTAGE_PAUSE_S, pause_s
from covey.model.work import Job, JobKind
from covey.ports import Clock
from covey.services.nova_moves import NovaServices
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class ComputeServiceDrains:
    """The job runs before the moves of its drain. Nova's own state says what is left to do, so it may be repeated."""

    store: Store
    clock: Clock
    services: NovaServices

    def run(self, job: Job) -> None:
        """Disable or enable, by the status of the drain. Raises OperationInProgress while Nova can't do it."""
        with self.store.read() as tx:
            found = tx.drains.by_id(job.subject_id)
            nodes = [] if found is None else tx.nova_instances.nodes_named(found.hosts)
        try:
            disabled = self._act(found, nodes)
        except CoveyError as error:
            raise self._wait(job.subject_id, error) from error
        self._save(job.subject_id, found, nodes, disabled)

    def _act(self, found: Drain | None, nodes: list[NovaNode]) -> set[str] | None:
        """Return the hosts that are disabled by this drain now; None if nothing was to do."""
        if found is not None and found.is_running:
            hosts = [node.host for node in nodes]
            disabled = self.services.disable(hosts, found.disabled_reason, partial(self._earlier_reasons, found))
            return {host.service_host for host in disabled}
        if found is not None and found.status is DrainStatus.UNDONE:
            self.services.enable(found.disabled_reason)
            return set()
        return None

    def _earlier_reasons(self, found: Drain, reasons: Iterable[str | None]) -> set[str]:
        with self.store.read() as tx:
            return tx.drains.earlier_reasons(found, reasons)

    def _save(self, drain: str, found: Drain | None, nodes: list[NovaNode], disabled: set[str] | None) -> None:
        with self.store.write() as tx:
            current = tx.drains.by_id(drain, lock=True)
            tx.work.finish(JobKind.COMPUTE_SERVICES, [drain])
            if current is None or found is None or disabled is None:
                return
            _mirror(tx, nodes, disabled, found)
            names = current.disabled if not found.is_running else tuple(dict.fromkeys((*current.disabled, *disabled)))
            if (names, None) != (current.disabled, current.reason):
                tx.drains.update(replace(current, disabled=names, reason=None, updated_at=self.clock()))
            if current.status is DrainStatus.UNDONE and found.is_running:  # undone in between
                tx.work.add(JobKind.COMPUTE_SERVICES, drain)

    def _wait(self, drain: str, error: CoveyError) -> OperationInProgress:
        """Show why the drain waits, and return when to try again."""
        now = self.clock()
        with self.store.write() as tx:
            current = tx.drains.by_id(drain, lock=True)
            if current is not None and current.reason != error.message:
                tx.drains.update(replace(current, reason=error.message, updated_at=now))
        since_s = 0.0 if current is None else (now - current.updated_at).total_seconds()
        return OperationInProgress(pause_s(since_s, LONGEST_OUTAGE_PAUSE_S))


def _mirror(tx: Transaction, nodes: list[NovaNode], disabled: set[str], found: Drain) -> None:
    """Mirror the new states, so that plans see them before the next reading."""
    for node in nodes:
        ours = node.host.service_host in disabled
        if ours and node.host.disabled_reason != found.disabled_reason:
            tx.nova_mirror.put_host(replace(node.host, disabled=True, disabled_reason=found.disabled_reason))
        elif not ours and node.host.disabled_reason == found.disabled_reason:
            tx.nova_mirror.put_host(replace(node.host, disabled=False, disabled_reason=None))

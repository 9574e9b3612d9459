"""Allocation candidates: the combinations of providers that can satisfy a request."""

from covey.model.access import Actor
from covey.model.errors import Invalid
from covey.ports import Access
from covey.scheduler.candidates import CandidateQuery, CandidateResult, find
from covey.scheduler.fleet import Fleet
from covey.services.live_fleet import LiveFleet
from covey.storage.store import Store, Transaction


class Candidates:
    """Finds candidates in memory, after applying all committed changes."""

    def __init__(self, store: Store, access: Access, live: LiveFleet) -> None:
        self._store = store
        self._access = access
        self._live = live

    def require_list(self, actor: Actor) -> None:
        """Raise Forbidden, before the query string is parsed."""
        self._access.require(actor, "placement:allocation_candidates:list")

    def find(self, actor: Actor, query: CandidateQuery, limit: int | None) -> CandidateResult:
        """Return the candidates, up to `limit`. Raises Forbidden, and Invalid for unknown classes and traits."""
        self.require_list(actor)
        with self._store.read() as tx:
            fleet = self._live.read(tx).fleet
            _check_names(query, fleet, tx)
        return find(query, fleet, limit)


def _check_names(query: CandidateQuery, fleet: Fleet, tx: Transaction) -> None:
    """Raise Invalid for unknown names. Only names that no provider in memory has are looked up."""
    classes = {name for name in query.amounts if not fleet.inventories.provides(name)}
    if classes and (unknown := classes - tx.resource_classes.known(classes)):
        raise Invalid(f"Invalid resource class in resources parameter: No such resource class {min(unknown)}.")
    traits = {name for name in query.traits if name not in fleet.traits}
    if traits and (unknown := traits - tx.traits.known(traits)):
        raise Invalid(f"No such trait(s): {', '.join(sorted(unknown))}.")

"""Allocation candidates: where what is asked for could come from."""

from covey.model.access import Actor
from covey.model.errors import Invalid
from covey.ports import Access
from covey.scheduler.candidates import Found, Providers, Query, find
from covey.services.placement.live_providers import LiveProviders
from covey.storage.store import Store, Transaction


class Candidates:
    """Answers from the picture in memory, which is as new as the question."""

    def __init__(self, store: Store, access: Access, live: LiveProviders) -> None:
        self._store = store
        self._access = access
        self._live = live

    def may_ask(self, actor: Actor) -> None:
        """Raises Forbidden, for who wants to know before the question is read."""
        self._access.require(actor, "placement:allocation_candidates:list")

    def find(self, actor: Actor, query: Query, limit: int | None) -> Found:
        """The ways to meet the question, or the first so many. Raises Forbidden; Invalid for unknown names."""
        self.may_ask(actor)
        with self._store.read() as tx, self._live.fresh(tx) as providers:
            _check_names(query, providers, tx)
            return find(query, providers, limit)


def _check_names(query: Query, providers: Providers, tx: Transaction) -> None:
    """A name that some provider has is known; the store is asked about the others only."""
    classes = {name for name in query.amounts if name not in providers.stocks}
    if classes and (unknown := classes - tx.resource_classes.known(classes)):
        raise Invalid(f"Invalid resource class in resources parameter: No such resource class {min(unknown)}.")
    traits = {name for name in query.traits if name not in providers.traits}
    if traits and (unknown := traits - tx.traits.known(traits)):
        raise Invalid(f"No such trait(s): {', '.join(sorted(unknown))}.")

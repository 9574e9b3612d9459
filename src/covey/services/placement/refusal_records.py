"""Records why the policies of a group refused an instance that another service schedules."""

from contextlib import suppress

from covey.model.errors import CoveyError
from covey.model.instance_refusals import InstanceRefusal
from covey.storage.store import Store


def record_refusal(store: Store, new: InstanceRefusal) -> None:
    """Store a refusal, together with the refused claims of the same request.

    It has a transaction of its own: that of the refused request changes nothing. The answer to the request does not
    depend on it.
    """
    with suppress(CoveyError), store.write() as tx:
        tx.instance_refusals.put(new.following(tx.instance_refusals.by_id(new.instance)))

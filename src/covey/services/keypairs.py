"""Key pairs: list, show, create, import, delete. Each belongs to a user, in any project."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.errors import Invalid, NotFound, OverQuota
from covey.model.ids import UserId
from covey.model.keypairs import KeyPair, KeyType
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock
from covey.services import key_material
from covey.services.quotas import Quotas
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-keypairs:"


@dataclass(frozen=True, slots=True)
class KeyPairs:
    """Operations on key pairs. Those of another user need the rule of an administrator."""

    store: Store
    access: Access
    clock: Clock
    quotas: Quotas

    def find(self, actor: Actor, user: UserId, marker: str | None, limit: int | None) -> list[KeyPair]:
        """Return a page of a user's key pairs by name. Raises Invalid for an unknown marker."""
        self._require(actor, user, "index")
        with self.store.read() as tx:
            if marker is not None and tx.key_pairs.by_name(user, marker) is None:
                raise Invalid(f"Marker {marker} could not be found.")
            return tx.key_pairs.find(user, marker, limit)

    def get(self, actor: Actor, user: UserId, name: str) -> KeyPair:
        """Return a key pair. Raises NotFound."""
        self._require(actor, user, "show")
        with self.store.read_once() as tx:
            found = tx.key_pairs.by_name(user, name)
        if found is None:
            raise _not_found(user, name)
        return found

    def create(
        self, actor: Actor, user: UserId, name: str, kind: KeyType, public_key: str | None
    ) -> tuple[KeyPair, str | None]:
        """Return a new key pair; without a public key also the private key, which is not stored.

        Raises Invalid for a malformed public key, Conflict for a name that exists, OverQuota.
        """
        self._require(actor, user, "create")
        now, private_key = self.clock(), None
        if public_key is None:
            public_key, private_key = key_material.new_pair(kind, user, now)
        fingerprint = key_material.fingerprint(kind, public_key)
        with self.store.write() as tx:
            self._reject_over_quota(tx, actor, user)
            new = KeyPair(user, name, kind, public_key, fingerprint, now)
            tx.key_pairs.add(new)
        return new, private_key

    def delete(self, actor: Actor, user: UserId, name: str) -> None:
        """Delete a key pair; servers keep its name. Raises NotFound."""
        self._require(actor, user, "delete")
        with self.store.write() as tx:
            if not tx.key_pairs.delete(user, name):
                raise _not_found(user, name)

    def _require(self, actor: Actor, user: UserId, rule: str) -> None:
        self.access.require(actor, _RULE + rule, Target(user_id=user))

    def _reject_over_quota(self, tx: Transaction, actor: Actor, user: UserId) -> None:
        limit = self.quotas.limits_in(tx, actor.own_project)["key_pairs"]
        if limit == UNLIMITED:
            return
        tx.claims.usage(actor.own_project, lock=True)  # serializes creations up to the commit
        if tx.key_pairs.count(user) >= limit:
            raise OverQuota("Quota exceeded, too many key pairs.")


def _not_found(user: UserId, name: str) -> NotFound:
    return NotFound(f"Keypair {name} not found for user {user}")

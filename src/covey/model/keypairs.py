"""Key pairs: public keys by which users reach the guests of their servers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import UserId


class KeyType(StrEnum):
    """The kind of a key pair, as the API names it."""

    SSH = "ssh"
    X509 = "x509"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A public key of a user. The private key is never stored."""

    user_id: UserId
    name: str
    type: KeyType
    public_key: str
    fingerprint: str
    created_at: datetime
    id: int = 0

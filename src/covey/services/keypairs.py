"""Key pairs: list, show, create, import, delete. Each belongs to a user, in any project.

Covey makes a pair for a client that sends no public key.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from covey.model.access import Actor, Target
from covey.model.errors import Invalid, NotFound, OverQuota
from covey.model.ids import UserId
from covey.model.keypairs import KeyPair, KeyType
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock
from covey.services.quotas import Quotas
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-keypairs:"
_RSA_BITS, _EXPONENT = 2048, 65537
_VALID = timedelta(days=3650)
_PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")  # by which Windows finds the user of a certificate
_UTF8_TAG, _MAX_SHORT = 0x0C, 127  # of a text in ASN.1, whose length fits one byte
_MAX_COMMON_NAME = 64


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
            public_key, private_key = _new_pair(kind, user, now)
        fingerprint = _fingerprint(kind, public_key)
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


def _fingerprint(kind: KeyType, public_key: str) -> str:
    """Return the fingerprint of a public key or a certificate, as Nova shows it. Raises Invalid."""
    return _ssh_fingerprint(public_key) if kind is KeyType.SSH else _x509_fingerprint(public_key)


def _new_pair(kind: KeyType, user: str, now: datetime) -> tuple[str, str]:
    """Return a new public key or certificate of a user, and its private key."""
    key = rsa.generate_private_key(_EXPONENT, _RSA_BITS)
    if kind is KeyType.X509:
        certificate = _certificate(key, user, now.replace(tzinfo=UTC))
        bundle = pkcs12.serialize_key_and_certificates(None, key, certificate, None, serialization.NoEncryption())
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), base64.b64encode(bundle).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return f"{public.decode()} Generated-by-Covey", private.decode()


def _ssh_fingerprint(public_key: str) -> str:
    try:
        serialization.load_ssh_public_key(public_key.encode())
        blob = base64.b64decode(public_key.split()[1])
    except (ValueError, UnsupportedAlgorithm, binascii.Error, IndexError) as error:
        raise Invalid("Keypair data is invalid: failed to generate fingerprint") from error
    return _with_colons(hashlib.md5(blob, usedforsecurity=False).digest())


def _x509_fingerprint(certificate: str) -> str:
    try:
        loaded = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError as error:
        raise Invalid("Keypair data is invalid: failed to generate X509 fingerprint.") from error
    return _with_colons(loaded.fingerprint(hashes.SHA1()))  # noqa: S303 -- it names a certificate


def _with_colons(digest: bytes) -> str:
    return digest.hex(":")


def _certificate(key: rsa.RSAPrivateKey, user: str, now: datetime) -> x509.Certificate:
    """Return a certificate by which Windows authenticates the user, for ten years."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user[:_MAX_COMMON_NAME])])
    principal = f"{user[:_MAX_COMMON_NAME]}@localhost".encode()[:_MAX_SHORT]
    alternative = x509.OtherName(_PRINCIPAL_NAME, bytes([_UTF8_TAG, len(principal)]) + principal)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _VALID)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )

"""Keys: fingerprints of public ones, and new pairs for clients that do not make their own."""

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from covey.model.errors import Invalid
from covey.model.keypairs import KeyType

_RSA_BITS, _EXPONENT = 2048, 65537
_VALID = timedelta(days=3650)
_PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")  # by which Windows finds the user of a certificate
_UTF8_TAG, _MAX_SHORT = 0x0C, 127  # of a text in ASN.1, whose length fits one byte
_MAX_COMMON_NAME = 64


def fingerprint(kind: KeyType, public_key: str) -> str:
    """Return the fingerprint of a public key or a certificate, as Nova shows it. Raises Invalid."""
    return _ssh_fingerprint(public_key) if kind is KeyType.SSH else _x509_fingerprint(public_key)


def new_pair(kind: KeyType, user: str, now: datetime) -> tuple[str, str]:
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

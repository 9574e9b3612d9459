"""Key pairs: create, import, list, show, delete, and their use when a server is created."""

import base64
import datetime as dt
import hashlib
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from covey.storage import tables
from tests.acceptance.openapi_resources import PUBLIC_KEY
from tests.functional.client import Answer, Client
from tests.functional.fleets import Cloud


def create(client: Client, name: str = "mine", **fields: Any) -> Answer:
    return client.post("/os-keypairs", {"keypair": {"name": name} | fields})


def md5_of(public_key: str) -> str:
    return hashlib.md5(base64.b64decode(public_key.split()[1]), usedforsecurity=False).digest().hex(":")


def sha1_of(certificate: x509.Certificate) -> str:
    der = certificate.public_bytes(serialization.Encoding.DER)
    return hashlib.sha1(der, usedforsecurity=False).digest().hex(":")


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [item["keypair"]["name"] for item in answer.json["keypairs"]]


@pytest.fixture(scope="module")
def certificate() -> str:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def test_public_key_is_imported_shown_and_deleted(cloud: Cloud) -> None:
    made = create(cloud.alice, public_key=PUBLIC_KEY)
    expected = {"name": "mine", "public_key": PUBLIC_KEY, "fingerprint": md5_of(PUBLIC_KEY), "type": "ssh"}
    assert (made.status, made.json) == (201, {"keypair": expected | {"user_id": "alice"}})
    assert cloud.alice.get("/os-keypairs").json == {"keypairs": [{"keypair": expected}]}
    shown = cloud.alice.get("/os-keypairs/mine").json["keypair"]
    rest = {"user_id": "alice", "deleted": False, "deleted_at": None, "updated_at": None}
    assert shown == expected | rest | {"id": shown["id"], "created_at": shown["created_at"]}
    assert cloud.alice.delete("/os-keypairs/mine").status == 204
    for gone in (cloud.alice.get("/os-keypairs/mine"), cloud.alice.delete("/os-keypairs/mine")):
        assert (gone.status, gone.message) == (404, "Keypair mine not found for user alice")
    assert names(cloud.alice.get("/os-keypairs")) == []


@pytest.mark.sqlite_only
def test_new_ssh_pair_belongs_together_and_its_private_key_is_not_stored(cloud: Cloud) -> None:
    made = create(cloud.alice.at("2.91")).json["keypair"]
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert made["public_key"] == f"{public.decode()} Generated-by-Covey"
    assert made["fingerprint"] == md5_of(made["public_key"])
    assert "private_key" not in cloud.alice.get("/os-keypairs/mine").json["keypair"]
    assert "PRIVATE" not in str(cloud.rows(tables.key_pairs))


@pytest.mark.sqlite_only
def test_new_x509_pair_is_a_certificate_of_the_user(cloud: Cloud) -> None:
    made = create(cloud.alice.at("2.2"), type="x509").json["keypair"]
    loaded = x509.load_pem_x509_certificate(made["public_key"].encode())
    assert loaded.subject.rfc4514_string() == "CN=alice"
    assert made["fingerprint"] == sha1_of(loaded)
    key, inside, _ = pkcs12.load_key_and_certificates(base64.b64decode(made["private_key"]), None)
    assert inside == loaded
    assert key is not None
    assert key.public_key() == loaded.public_key()


@pytest.mark.sqlite_only
def test_certificate_is_imported(cloud: Cloud, certificate: str) -> None:
    made = create(cloud.alice, type="x509", public_key=certificate).json["keypair"]
    expected = sha1_of(x509.load_pem_x509_certificate(certificate.encode()))
    assert (made["type"], made["fingerprint"]) == ("x509", expected)


@pytest.mark.parametrize(
    ("version", "status", "deleted", "fields"),
    [
        ("2.1", 200, 202, {"name", "public_key", "fingerprint"}),
        ("2.2", 201, 204, {"name", "public_key", "fingerprint", "type"}),
        ("2.92", 201, 204, {"name", "public_key", "fingerprint", "type"}),
    ],
)
@pytest.mark.sqlite_only
def test_responses_follow_the_microversion(
    module_cloud: Cloud, version: str, status: int, deleted: int, fields: set[str]
) -> None:
    client = module_cloud.alice.at(version)
    made = create(client, public_key=PUBLIC_KEY)
    assert (made.status, made.json["keypair"].keys()) == (status, fields | {"user_id"})
    assert client.get("/os-keypairs").json["keypairs"][0]["keypair"].keys() == fields
    more = {"id", "user_id", "created_at", "updated_at", "deleted", "deleted_at"}
    assert client.get("/os-keypairs/mine").json["keypair"].keys() == fields | more
    assert client.delete("/os-keypairs/mine").status == deleted


@pytest.mark.parametrize(
    ("version", "fields", "message"),
    [
        ("2.1", {"name": ""}, "'' should be non-empty"),
        ("2.1", {"name": "k" * 256}, "is too long"),
        ("2.1", {"name": "key_/.\\@:"}, "does not match"),
        ("2.91", {"name": "a@b.c"}, "does not match"),
        ("2.92", {"name": "a:b", "public_key": PUBLIC_KEY}, "does not match"),
        ("2.1", {"name": "k", "type": "ssh"}, "Additional properties are not allowed ('type' was unexpected)"),
        ("2.2", {"name": "k", "type": "pgp"}, "'pgp' is not one of ['ssh', 'x509']"),
        ("2.9", {"name": "k", "user_id": "bob"}, "Additional properties are not allowed ('user_id' was unexpected)"),
        ("2.92", {"name": "k"}, "'public_key' is a required property"),
        ("2.1", {"name": "k", "public_key": ""}, "Keypair data is invalid: failed to generate fingerprint"),
        ("2.1", {"name": "k", "public_key": "ssh-rsa JUNK nova@ubuntu"}, "Keypair data is invalid"),
        ("2.1", {"name": "k", "public_key": "ssh-rsa " + "A" * 2048 + " openstack@ubuntu"}, "Keypair data is invalid"),
        ("2.2", {"name": "k", "type": "x509", "public_key": PUBLIC_KEY}, "failed to generate X509 fingerprint."),
    ],
)
@pytest.mark.sqlite_only
def test_invalid_key_pair_returns_400(module_cloud: Cloud, version: str, fields: dict[str, str], message: str) -> None:
    refused = module_cloud.alice.at(version).post("/os-keypairs", {"keypair": fields})
    assert (refused.status, message in refused.message) == (400, True), refused.text


@pytest.mark.sqlite_only
def test_names_may_contain_at_and_dot_from_2_92(module_cloud: Cloud) -> None:
    alice = module_cloud.alice.at("2.92")
    assert create(alice, "alice@host.example 1", public_key=PUBLIC_KEY).status == 201
    assert alice.delete("/os-keypairs/alice@host.example 1").status == 204


def test_second_key_pair_of_a_name_is_409(cloud: Cloud) -> None:
    cloud.add_key_pair("mine")
    refused = create(cloud.alice, public_key=PUBLIC_KEY)
    assert (refused.status, refused.message) == (409, "Key pair 'mine' already exists.")
    assert create(cloud.bob, public_key=PUBLIC_KEY).status == 201, "names are the user's own"


def test_key_pairs_are_paged_by_name_from_2_35(cloud: Cloud) -> None:
    for name in ("c", "a", "b"):
        cloud.add_key_pair(name)
    alice = cloud.alice.at("2.35")
    page = alice.get("/os-keypairs", limit="2")
    assert (names(page), page.json["keypairs_links"][0]["rel"]) == (["a", "b"], "next")
    assert page.json["keypairs_links"][0]["href"].endswith("/os-keypairs?limit=2&marker=b")
    rest = alice.get("/os-keypairs", limit="2", marker="b")
    assert (names(rest), rest.json.keys()) == (["c"], {"keypairs"})
    assert alice.get("/os-keypairs", limit="0").json == {"keypairs": []}
    assert names(cloud.alice.at("2.34").get("/os-keypairs", limit="1")) == ["a", "b", "c"], "not yet"
    refused = alice.get("/os-keypairs", marker="none")
    assert (refused.status, refused.message) == (400, "Marker none could not be found.")


def test_key_pairs_belong_to_a_user_and_administrators_manage_them_from_2_10(cloud: Cloud) -> None:
    admin = cloud.admin.at("2.10")
    made = create(admin, public_key=PUBLIC_KEY, user_id="alice")
    assert (made.status, made.json["keypair"]["user_id"]) == (201, "alice")
    assert names(cloud.alice.get("/os-keypairs")) == ["mine"]
    assert names(cloud.service.as_("alice:another", "2.1000").get("/os-keypairs")) == ["mine"]
    assert names(cloud.bob.get("/os-keypairs")) == names(admin.get("/os-keypairs")) == []
    assert names(admin.get("/os-keypairs", user_id="alice")) == ["mine"]
    assert admin.get("/os-keypairs/mine", user_id="alice").status == 200
    assert cloud.admin.at("2.9").get("/os-keypairs/mine", user_id="alice").status == 404, "not yet"
    refused = cloud.bob.get("/os-keypairs/mine", user_id="alice")
    message = "Policy doesn't allow os_compute_api:os-keypairs:show to be performed."
    assert (refused.status, refused.message) == (403, message)
    assert admin.ask("DELETE", "/os-keypairs/mine", params={"user_id": "alice"}).status == 204
    assert names(cloud.alice.get("/os-keypairs")) == []


def test_key_pairs_have_a_quota(cloud: Cloud) -> None:
    cloud.set_quota(key_pairs=1)
    cloud.add_key_pair("first")
    refused = create(cloud.alice, public_key=PUBLIC_KEY)
    assert (refused.status, refused.message) == (403, "Quota exceeded, too many key pairs.")
    cloud.set_quota(key_pairs=-1)
    assert create(cloud.alice, public_key=PUBLIC_KEY).status == 201


def test_server_needs_a_key_pair_of_its_user(cloud: Cloud) -> None:
    cloud.add_key_pair("bobs", cloud.bob)
    for name in ("none", "bobs"):
        refused = cloud.request_server(cloud.alice, key_name=name)
        assert (refused.status, refused.message) == (400, "Invalid key_name provided.")
    cloud.add_key_pair("mine")
    server = cloud.boot(key_name="mine")
    assert cloud.alice.delete("/os-keypairs/mine").status == 204
    assert cloud.show(server, cloud.alice)["key_name"] == "mine", "a server keeps the name of its key pair"

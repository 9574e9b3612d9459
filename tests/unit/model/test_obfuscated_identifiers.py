"""Obfuscated identifiers match the two-step uuid5 derivation of the specification."""

import random
import string
import uuid

from covey.model.ids import ProjectId
from covey.model.scopes import obfuscated_identifier

RNG = random.Random(17)  # noqa: S311 -- repeatable


def a_namespace() -> str:
    return str(uuid.UUID(int=RNG.getrandbits(128), version=4))


def a_project() -> str:
    letters = string.printable + "äß漢🐣"
    return "".join(RNG.choices(letters, k=RNG.randint(1, 64)))


def test_obfuscated_identifiers_match_the_specification() -> None:
    for _ in range(1000):
        policy_namespace_uuid, tenant_id = uuid.UUID(a_namespace()), a_project()
        aggregate_id = str(RNG.randrange(2**31))
        tenant_namespace_uuid = uuid.uuid5(policy_namespace_uuid, tenant_id)
        obfuscated_id = uuid.uuid5(tenant_namespace_uuid, aggregate_id)
        found = obfuscated_identifier(str(policy_namespace_uuid), ProjectId(tenant_id), aggregate_id)
        assert found == str(obfuscated_id)


def test_obfuscated_identifier_is_stable_across_releases() -> None:
    namespace = "6f72348f-df5d-4e0f-a043-4be92996dbfe"
    assert obfuscated_identifier(namespace, ProjectId("12345"), "67890") == "d3bc33fd-9446-533c-acf9-c66252668218"


def test_obfuscated_identifiers_differ_by_scope_tenant_and_domain() -> None:
    namespaces, projects, domains = [a_namespace() for _ in range(3)], ("web", "db"), ("1", "2", "11")
    found = {obfuscated_identifier(n, ProjectId(p), d) for n in namespaces for p in projects for d in domains}
    assert len(found) == 3 * 2 * 3

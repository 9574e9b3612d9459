"""Flavors that request any resource class: on the host, on its child providers, from sharing providers, in groups."""

import pytest

from tests.build import NOW
from tests.functional.client import Client
from tests.functional.fleets import Cloud
from tests.functional.test_placement import make, placement_client, provider_of, stock

SHARES = "MISC_SHARES_VIA_AGGREGATE"
POOL = "00000000-0000-0000-0000-0000000000aa"
GPU = "resources:CUSTOM_GPU"


@pytest.fixture
def ledger(cloud: Cloud) -> Client:
    """Placement, with the class CUSTOM_GPU and the trait CUSTOM_FAST."""
    with cloud.store.write() as tx:
        tx.resource_classes.add("CUSTOM_GPU", NOW)
        tx.traits.add_custom(["CUSTOM_FAST"], NOW)
    return placement_client(cloud)


def set_specs(cloud: Cloud, flavor: str = "small", **specs: str) -> None:
    found = cloud.admin.get("/flavors").json["flavors"]
    key = next(each["id"] for each in found if each["name"] == flavor or each["id"] == flavor)
    assert cloud.admin.post(f"/flavors/{key}/os-extra_specs", {"extra_specs": specs}).status == 200


def set_traits(client: Client, provider: str, *traits: str) -> None:
    generation = client.get(f"/resource_providers/{provider}").json["generation"]
    body = {"resource_provider_generation": generation, "traits": list(traits)}
    assert client.put(f"/resource_providers/{provider}/traits", body).status == 200


def share(client: Client, *providers: str) -> None:
    """Put providers into one aggregate."""
    for provider in providers:
        generation = client.get(f"/resource_providers/{provider}").json["generation"]
        body = {"resource_provider_generation": generation, "aggregates": [POOL]}
        assert client.put(f"/resource_providers/{provider}/aggregates", body).status == 200


def held(client: Client, server: str) -> dict[str, dict[str, int]]:
    found = client.get(f"/allocations/{server}").json["allocations"]
    return {provider: each["resources"] for provider, each in found.items()}


def refusal(cloud: Cloud, server: str) -> str:
    message: str = cloud.show(server)["fault"]["message"]
    return message.removeprefix("No valid host was found. ")


def test_custom_class_of_a_host_is_placed_claimed_refused_and_released(cloud: Cloud, ledger: Client) -> None:
    gpus = provider_of(cloud, "node-2")
    stock(ledger, gpus, CUSTOM_GPU=1)
    set_specs(cloud, **{GPU: "1"})
    server = cloud.boot()
    assert cloud.host(server) == "node-2"
    assert held(ledger, server) == {gpus: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10, "CUSTOM_GPU": 1}}
    assert ledger.get(f"/resource_providers/{gpus}/usages").json["usages"]["CUSTOM_GPU"] == 1
    refused = cloud.boot()
    assert refusal(cloud, refused) == "Of 3 hosts: 3 lack CUSTOM_GPU."
    cloud.delete(server, refused)
    assert ledger.get(f"/resource_providers/{gpus}/usages").json["usages"]["CUSTOM_GPU"] == 0
    assert cloud.host(cloud.boot()) == "node-2"


def test_amount_of_zero_takes_the_size_of_the_flavor_away(cloud: Cloud, ledger: Client) -> None:
    set_specs(cloud, **{"resources:VCPU": "0", "resources:DISK_GB": "0", "resources:MEMORY_MB": "2048"})
    server = cloud.boot()
    assert list(held(ledger, server).values()) == [{"MEMORY_MB": 2048}]
    assert cloud.use() == (1, 1, 1024)  # quotas count the flavor, as Nova's do


def test_child_provider_serves_its_part(cloud: Cloud, ledger: Client) -> None:
    host = provider_of(cloud, "node-3")
    card = make(ledger, "card", host)
    stock(ledger, card, CUSTOM_GPU=2)
    set_specs(cloud, **{GPU: "1"})
    first, second = cloud.boot(), cloud.boot()
    assert cloud.hosts([first, second]) == ["node-3", "node-3"]
    assert held(ledger, first) == {host: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}, card: {"CUSTOM_GPU": 1}}
    assert refusal(cloud, cloud.boot()) == "Of 3 hosts: 3 lack CUSTOM_GPU."
    page = cloud.service.as_("admin:operators").below("/dashboard").get("/data/hosts/node-3").json
    assert [*page["inventories"]] == ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GPU"]
    assert (page["inventories"]["CUSTOM_GPU"]["used"], page["inventories"]["CUSTOM_GPU"]["capacity"]) == (2, 2)
    cloud.delete(first)
    assert cloud.host(cloud.boot()) == "node-3"


def test_sharing_provider_serves_disk(cloud: Cloud, ledger: Client) -> None:
    host, pool = provider_of(cloud, "node-1"), make(ledger, "pool")
    generation = ledger.get(f"/resource_providers/{host}").json["generation"]
    inventories = ledger.get(f"/resource_providers/{host}/inventories").json["inventories"]
    del inventories["DISK_GB"]
    body = {"resource_provider_generation": generation, "inventories": inventories}
    assert ledger.put(f"/resource_providers/{host}/inventories", body).status == 200
    stock(ledger, pool, DISK_GB=1000)
    set_traits(ledger, pool, SHARES)
    share(ledger, host, pool)
    server = cloud.boot_on("node-1")
    assert held(ledger, server) == {host: {"VCPU": 1, "MEMORY_MB": 1024}, pool: {"DISK_GB": 10}}


def test_granular_groups_are_served_by_one_provider_each(cloud: Cloud, ledger: Client) -> None:
    host = provider_of(cloud, "node-2")
    fast, slow = make(ledger, "fast", host), make(ledger, "slow", host)
    for card in (fast, slow):
        stock(ledger, card, CUSTOM_GPU=2)
    set_traits(ledger, fast, "CUSTOM_FAST")
    specs = {"resources1:CUSTOM_GPU": "1", "trait1:CUSTOM_FAST": "required", "resources2:CUSTOM_GPU": "1"}
    set_specs(cloud, **specs, group_policy="isolate")
    server = cloud.boot()
    common = {host: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}}
    assert held(ledger, server) == common | {fast: {"CUSTOM_GPU": 1}, slow: {"CUSTOM_GPU": 1}}
    assert cloud.host(cloud.boot()) == "node-2"
    assert "3 lack CUSTOM_GPU" in refusal(cloud, cloud.boot())


def test_traits_of_a_child_provider_count_only_if_it_serves(cloud: Cloud, ledger: Client) -> None:
    host = provider_of(cloud, "node-1")
    card = make(ledger, "card", host)
    stock(ledger, card, CUSTOM_GPU=1)
    set_traits(ledger, card, "CUSTOM_FAST")
    set_specs(cloud, **{"trait:CUSTOM_FAST": "required"})
    expected = "Of 3 hosts: 2 lack a required trait, 1 has no providers that serve it together."
    assert refusal(cloud, cloud.boot()) == expected
    set_specs(cloud, "big", **{"trait:CUSTOM_FAST": "required", GPU: "1"})
    assert cloud.host(cloud.boot(flavorRef="big")) == "node-1"


def test_batch_takes_as_many_as_child_providers_serve(cloud: Cloud, ledger: Client) -> None:
    for name, cards in (("node-1", 1), ("node-2", 2)):
        card = make(ledger, f"card-of-{name}", provider_of(cloud, name))
        stock(ledger, card, CUSTOM_GPU=cards)
    set_specs(cloud, **{GPU: "1"})
    cloud.request_server(cloud.alice, "batch", min_count=2, max_count=9)
    cloud.settle()
    assert sorted(server["OS-EXT-SRV-ATTR:host"] for server in cloud.servers()) == ["node-1", "node-2", "node-2"]


def test_policies_of_a_group_hold_for_servers_of_child_providers(cloud: Cloud, ledger: Client) -> None:
    for name in ("node-1", "node-2"):
        stock(ledger, make(ledger, f"card-of-{name}", provider_of(cloud, name)), CUSTOM_GPU=4)
    set_specs(cloud, **{GPU: "1"})
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(3)]
    assert {cloud.host(server) for server in servers[:2]} == {"node-1", "node-2"}
    assert refusal(cloud, servers[2]) == "Of 3 hosts: 2 already hold 1 of the group, 1 lacks CUSTOM_GPU."


def test_move_takes_the_child_provider_of_its_destination(cloud: Cloud, ledger: Client) -> None:
    cards = {}
    for name in ("node-1", "node-2"):
        cards[name] = make(ledger, f"card-of-{name}", provider_of(cloud, name))
        stock(ledger, cards[name], CUSTOM_GPU=1)
    set_specs(cloud, **{GPU: "1"})
    server = cloud.boot()
    source = str(cloud.host(server))
    cloud.run_action(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.settle()
    destination = "node-2" if source == "node-1" else "node-1"
    assert cloud.host(server) == destination
    assert held(ledger, server)[cards[destination]] == {"CUSTOM_GPU": 1}
    assert ledger.get(f"/resource_providers/{cards[source]}/usages").json["usages"] == {"CUSTOM_GPU": 0}


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ({"resources:CUSTOM_GPU": "many"}, "The extra spec resources:CUSTOM_GPU is 'many'"),
        ({"resources:gpu": "1"}, "The extra spec resources:gpu does not name a resource class"),
        ({"trait:CUSTOM_A": "maybe"}, "it must be required or forbidden"),
        ({"group_policy": "spread"}, "it must be none or isolate"),
        ({"resources1:CUSTOM_GPU": "1", "resources2:CUSTOM_GPU": "1"}, "its extra spec group_policy must say"),
        ({"trait1:CUSTOM_A": "required"}, "no resources1"),
        ({"pci_passthrough:alias": "gpu:1"}, "asks for a placement that this service does not support"),
        ({"hw:cpu_policy": "dedicated"}, "asks for a placement that this service does not support"),
        ({f"resources:{kind}": "0" for kind in ("VCPU", "MEMORY_MB", "DISK_GB")}, "The flavor requests no resources"),
    ],
)
def test_extra_spec_that_no_rule_covers_is_an_error(cloud: Cloud, specs: dict[str, str], message: str) -> None:
    key = cloud.admin.get("/flavors").json["flavors"][0]["id"]
    assert cloud.admin.at("2.79").post(f"/flavors/{key}/os-extra_specs", {"extra_specs": specs}).status == 200
    answer = cloud.request_server(cloud.alice, flavorRef=key)
    assert answer.status == 400
    assert message in answer.message


@pytest.mark.parametrize("key", ["resources:CUSTOM_GPU", "resources2:VGPU", "trait:CUSTOM_A", "group_policy"])
def test_malformed_value_is_refused_when_it_is_set(cloud: Cloud, key: str) -> None:
    flavor = cloud.admin.get("/flavors").json["flavors"][0]["id"]
    answer = cloud.admin.post(f"/flavors/{flavor}/os-extra_specs", {"extra_specs": {key: "x"}})
    assert answer.status == 400
    assert key in answer.message

"""Flavors that request any resource class: on the host, on its child providers, from sharing providers, in groups."""

from dataclasses import replace
from uuid import uuid4

import pytest

from covey.model import extra_specs, resources
from covey.model.errors import Conflict
from covey.model.fleet_plan import describe
from covey.model.inventory import Inventory, ResourceClass
from covey.services.fleets import Fleets
from tests.build import NOW
from tests.functional.client import Client
from tests.functional.fleets import Cloud
from tests.functional.test_placement import make, placement_client, provider_of, stock
from tests.functional.test_previews import headroom, preview
from tests.functional.test_rebalances import finish, planned, started

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
    assert cloud.use() == (1, 0, 2048)


def test_quotas_count_what_a_server_claims(cloud: Cloud, ledger: Client) -> None:
    for name in ("node-1", "node-2"):
        stock(ledger, provider_of(cloud, name), CUSTOM_GPU=4, PCPU=8)
    set_specs(cloud, **{"resources:VCPU": "0", "resources:PCPU": "3", "resources1:MEMORY_MB": "512", GPU: "1"})
    cloud.set_quota(cores=6, ram=3072)
    assert cloud.request_server(cloud.alice, min_count=1, max_count=9).status == 202
    cloud.settle()
    assert cloud.use() == (2, 6, 3072)
    refused = cloud.request_server(cloud.alice)
    assert refused.message == "Quota exceeded for cores: Requested 3, but already used 6 of 6 cores"
    cloud.set_quota(cores=9)
    refused = cloud.request_server(cloud.alice)
    assert refused.message == "Quota exceeded for ram: Requested 1536, but already used 3072 of 3072 ram"
    cloud.delete(*(server["id"] for server in cloud.servers()))
    assert cloud.use() == (0, 0, 0)


def test_resize_counts_the_larger_claim_until_it_is_confirmed(cloud: Cloud) -> None:
    set_specs(cloud, "big", **{"resources:VCPU": "0", "resources:MEMORY_MB": "4096"})
    server = cloud.boot()
    assert cloud.use() == (1, 1, 1024)
    cloud.set_quota(ram=4000)
    refused = cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert refused.message == "Quota exceeded for ram: Requested 3072, but already used 1024 of 4000 ram"
    cloud.set_quota(ram=4096)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert cloud.use() == (1, 1, 4096)
    cloud.run_action(cloud.alice, server, "confirmResize")
    assert cloud.use() == (1, 0, 4096)
    cloud.delete(server)
    assert cloud.is_empty()


def test_fleet_file_gives_hosts_custom_classes_and_takes_back_unused_ones(cloud: Cloud) -> None:
    fleets = Fleets(cloud.store, lambda: NOW, lambda: str(uuid4()), dict.fromkeys(ResourceClass, 1.0))
    set_specs(cloud, **{GPU: "1"})
    present = fleets.export()
    gpus = replace(present.hosts[1], inventories={"CUSTOM_GPU": Inventory(2, reserved=1)})
    file = replace(present, hosts=(present.hosts[0], gpus, present.hosts[2]))
    assert [*describe(fleets.compare(file))] == ["~ host node-2: CUSTOM_GPU none -> 2 (x1, 1 reserved)"]
    fleets.apply(file, lambda _: None)
    assert fleets.export() == file
    server = cloud.boot()
    assert cloud.host(server) == "node-2"
    assert refusal(cloud, cloud.boot()) == "Of 3 hosts: 3 lack CUSTOM_GPU."
    without = replace(file, hosts=(present.hosts[0], replace(gpus, inventories={}), present.hosts[2]))
    with pytest.raises(Conflict, match="Host node-2: servers use the inventory of CUSTOM_GPU, which the file removes"):
        fleets.apply(without, lambda _: None)
    assert fleets.export() == file
    cloud.delete(server)
    fleets.apply(without, lambda _: None)
    assert fleets.export() == present
    assert refusal(cloud, cloud.boot()) == "Of 3 hosts: 3 lack CUSTOM_GPU."


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
    query = cloud.admin.get(f"/servers/{server}/placement").json["placement"]["query"]
    assert query == (
        "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10&resources1=CUSTOM_GPU:1&required1=CUSTOM_FAST"
        "&resources2=CUSTOM_GPU:1&group_policy=isolate"
    )


@pytest.mark.sqlite_only
def test_traits_of_a_child_provider_count_only_if_it_serves(cloud: Cloud, ledger: Client) -> None:
    host = provider_of(cloud, "node-1")
    card = make(ledger, "card", host)
    stock(ledger, card, CUSTOM_GPU=1)
    set_traits(ledger, card, "CUSTOM_FAST")
    set_specs(cloud, **{"trait:CUSTOM_FAST": "required"})
    expected = "Of 3 hosts: 2 lack a required trait, 1 has no providers that serve it together."
    assert refusal(cloud, cloud.boot()) == expected
    body = {"explain": {"flavorRef": "small"}}
    explanation = cloud.admin.post("/os-placement-explain", body).json["explanation"]
    assert explanation["candidates"] == 0
    assert {each["host"]: each["reason"] for each in explanation["hosts"]} == {
        "node-1": "its resource providers do not serve the request together",
        "node-2": "it lacks the required trait CUSTOM_FAST",
        "node-3": "it lacks the required trait CUSTOM_FAST",
    }
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


@pytest.mark.sqlite_only
def test_preview_and_headroom_count_what_child_providers_have(cloud: Cloud, ledger: Client) -> None:
    for name, cards in (("node-1", 1), ("node-2", 2)):
        stock(ledger, make(ledger, f"card-of-{name}", provider_of(cloud, name)), CUSTOM_GPU=cards)
    set_specs(cloud, **{GPU: "1"})
    spread, anywhere = cloud.group("anti-affinity"), cloud.group("soft-anti-affinity")
    shown = preview(cloud.admin, spread, count=3)
    assert (shown["fits"], shown["reason"]) == (
        2,
        "2 of 3 fit, then of 3 hosts: 2 lack CUSTOM_GPU, 1 already holds 1 of the group.",
    )
    seen = headroom(cloud.admin, anywhere)
    assert (seen["count"], seen["at_least"], seen["reason"]) == (3, False, "Of 3 hosts: 3 lack CUSTOM_GPU.")
    cloud.boot(group=anywhere)
    assert headroom(cloud.admin, anywhere)["count"] == 2


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


def test_rebalance_moves_a_server_to_the_host_whose_custom_class_is_free(cloud: Cloud, ledger: Client) -> None:
    for name, gpus in (("node-1", 2), ("node-2", 1), ("node-3", 1)):
        stock(ledger, provider_of(cloud, name), CUSTOM_GPU=gpus)
    set_specs(cloud, **{GPU: "1"})
    taken, group = cloud.boot_on("node-2"), cloud.group("anti-affinity")
    servers = [cloud.boot_on("node-1", group) for _ in range(2)]
    assert [move["to"] for move in planned(cloud.admin, group)["moves"]] == ["node-3"]
    started(cloud, group)
    assert finish(cloud, group)["status"] == "done"
    assert sorted(map(str, cloud.hosts(servers))) == ["node-1", "node-3"]
    assert cloud.host(taken) == "node-2"


def test_server_with_an_extra_spec_older_than_its_rule_stays_and_counts(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = cloud.group("anti-affinity")
    with monkeypatch.context() as before:
        before.setattr(extra_specs, "_IGNORED_KEYS", {"hw:old"})
        set_specs(cloud, "big", **{"hw:old": "1"})
        cloud.boot_on("node-1", group, flavorRef="big")
    resources._request.cache_clear()
    assert cloud.request_server(cloud.alice, flavorRef="big").status == 400
    other = cloud.boot_on("node-1", group)
    (move,) = planned(cloud.admin, group)["moves"]
    assert (move["instance_id"], move["from"]) == (other, "node-1")


def test_rebalance_moves_servers_of_child_providers_and_only_where_they_have_room(cloud: Cloud, ledger: Client) -> None:
    cards = {name: make(ledger, f"card-of-{name}", provider_of(cloud, name)) for name in ("node-1", "node-2", "node-3")}
    for name, gpus in (("node-1", 3), ("node-2", 1), ("node-3", 1)):
        stock(ledger, cards[name], CUSTOM_GPU=gpus)
    set_specs(cloud, **{GPU: "1"})
    cloud.boot_on("node-2")
    group = cloud.group("anti-affinity")
    servers = [cloud.boot_on("node-1", group) for _ in range(3)]
    plan = planned(cloud.admin, group)
    assert [(move["from"], move["to"]) for move in plan["moves"]] == [("node-1", "node-3")]
    assert [each["domain"] for each in plan["violations_after"]] == ["node-1"]  # no card is free for the third one
    started(cloud, group)
    finish(cloud, group)
    (moved,) = [server for server in servers if cloud.host(server) == "node-3"]
    assert held(ledger, moved)[cards["node-3"]] == {"CUSTOM_GPU": 1}
    assert ledger.get(f"/resource_providers/{cards['node-1']}/usages").json["usages"] == {"CUSTOM_GPU": 2}


@pytest.mark.sqlite_only
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
        ({"hw:mem_page_size": "large"}, "asks for a placement that this service does not support"),
        ({"resource:CUSTOM_GPU": "1"}, "write resources:CLASS"),
        ({"ssd": "true"}, "The flavor's extra spec ssd=true has no namespace"),
        ({f"resources:{kind}": "0" for kind in ("VCPU", "MEMORY_MB", "DISK_GB")}, "The flavor requests no resources"),
    ],
)
def test_extra_spec_that_no_rule_covers_is_an_error(cloud: Cloud, specs: dict[str, str], message: str) -> None:
    key = cloud.admin.get("/flavors").json["flavors"][0]["id"]
    assert cloud.admin.at("2.79").post(f"/flavors/{key}/os-extra_specs", {"extra_specs": specs}).status == 200
    answer = cloud.request_server(cloud.alice, flavorRef=key)
    assert answer.status == 400
    assert message in answer.message


@pytest.mark.sqlite_only
@pytest.mark.parametrize("key", ["resources:CUSTOM_GPU", "resources2:VGPU", "trait:CUSTOM_A", "group_policy"])
def test_malformed_value_is_refused_when_it_is_set(cloud: Cloud, key: str) -> None:
    flavor = cloud.admin.get("/flavors").json["flavors"][0]["id"]
    answer = cloud.admin.post(f"/flavors/{flavor}/os-extra_specs", {"extra_specs": {key: "x"}})
    assert answer.status == 400
    assert key in answer.message

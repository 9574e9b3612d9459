"""Extra specs that decide where a server runs, and that no rule of Covey covers, are errors; others have no effect."""

import pytest

from covey.model.errors import Invalid
from covey.model.flavors import Flavor
from covey.model.ids import FlavorId
from covey.model.resources import resource_request


def flavor(key: str, value: str) -> Flavor:
    return Flavor(FlavorId("f"), "f", 1, 1024, 10, extra_specs={key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:mem_page_size", "large"),
        ("hw:cpu_policy", "dedicated"),
        ("hw:cpu_thread_policy", "require"),
        ("hw:cpu_dedicated_mask", "0-1"),
        ("hw:cpu_realtime", "true"),
        ("hw:emulator_threads_policy", "isolate"),
        ("hw:mem_encryption", "True"),
        ("hw:tpm_version", "2.0"),
        ("hw:pmem", "6GB"),
        ("hw:numa_nodes", "2"),
        ("hw:numa_mem.0", "1024"),
        ("hw:pci_numa_affinity_policy", "required"),
        ("hw:unknown", "1"),
        ("HW:mem_page_size", "large"),
        ("os:secure_boot", "required"),
        ("accel:device_profile", "gpu"),
        ("capabilities:hypervisor_type", "kvm"),
        ("aggregate_instance_extra_specs:ssd", "true"),
        ("pci_passthrough:alias", "gpu:1"),
        ("resource:CUSTOM_GPU", "1"),
        ("resources$1:CUSTOM_GPU", "1"),
        ("Resources:CUSTOM_GPU", "1"),
        ("traits:CUSTOM_A", "required"),
        ("trait.1:CUSTOM_A", "required"),
        ("ssd", "true"),
        ("gpu_model", "<in> A100"),
        ("Group_Policy", "none"),
    ],
)
def test_placement_that_no_rule_covers_is_an_error(key: str, value: str) -> None:
    with pytest.raises(Invalid):
        resource_request(flavor(key, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:cpu_policy", "shared"),
        ("hw:numa_nodes", "1"),
        ("hw:mem_encryption", "False"),
        ("hw:cpu_sockets", "2"),
        ("hw:vif_multiqueue_enabled", "true"),
        ("hw:watchdog_action", "reset"),
        ("hw_rng:allowed", "true"),
        ("quota:cpu_shares", "100"),
        ("os:secure_boot", "optional"),
        ("group_policy", "none"),
        ("hide_hypervisor_id", "true"),
        ("site:owner", "team-1"),
    ],
)
def test_extra_spec_without_influence_on_placement_has_no_effect(key: str, value: str) -> None:
    assert dict(resource_request(flavor(key, value)).amounts) == {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


def test_key_without_a_namespace_is_refused_with_what_would_be_accepted() -> None:
    with pytest.raises(Invalid) as refusal:
        resource_request(flavor("ssd", "true"))
    assert refusal.value.message == (
        "The flavor's extra spec ssd=true has no namespace, so it asks for a placement that this service does not "
        "support; write trait:NAME or resources:CLASS, or a key with a namespace of your own, such as site:ssd, which "
        "has no effect."
    )

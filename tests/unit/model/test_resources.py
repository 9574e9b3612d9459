"""Resources: amounts of resource classes, as one value."""

from covey.model.resources import Resources, server_resources


def test_server_classes_come_first_and_others_by_name() -> None:
    mixed = Resources({"VGPU": 1, "DISK_GB": 10, "CUSTOM_GPU": 2, "VCPU": 4, "MEMORY_MB": 512})
    assert list(mixed) == ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GPU", "VGPU"]


def test_equal_amounts_are_equal_and_hash_equally() -> None:
    one, other = Resources({"VCPU": 1, "CUSTOM_GPU": 2}), Resources({"CUSTOM_GPU": 2, "VCPU": 1, "DISK_GB": 0})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Resources({"VCPU": 1})


def test_class_that_is_not_requested_is_left_out() -> None:
    diskless = server_resources(1, 512, 0)
    assert dict(diskless) == {"VCPU": 1, "MEMORY_MB": 512}
    assert diskless.get("DISK_GB", 0) == 0
    assert not server_resources(0, 0, 0)


def test_resources_are_multiplied_and_changed_by_copies() -> None:
    server = server_resources(1, 512, 10)
    assert server * -2 == server_resources(-2, -1024, -20)
    assert server.without("DISK_GB") == server_resources(1, 512, 0)
    assert server.with_amount("CUSTOM_GPU", 1)["CUSTOM_GPU"] == 1
    assert server == server_resources(1, 512, 10)

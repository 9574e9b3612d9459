"""Extra specs beyond resources and traits: which ones Covey ignores, and which ones it rejects.

Nova places servers by some of them. Covey has no rule for these, and would place a server where it must not be.
"""

from covey.model.errors import Invalid

# Nova documents no other keys without a namespace. Its filters compare all others with hosts or with aggregates.
_WITHOUT_NAMESPACE = frozenset({"group_policy", "hide_hypervisor_id"})
# In these namespaces of Nova every key is a placement.
_PLACEMENT_NAMESPACES = {"accel", "aggregate_instance_extra_specs", "capabilities", "pci_passthrough"}
# In these only the keys below have no influence on placement. All other namespaces are the driver's or the operator's.
_MIXED_NAMESPACES = {"hw", "os"}
_IGNORED_KEYS = frozenset(
    {
        "hw:boot_menu",
        "hw:cpu_cores",
        "hw:cpu_max_cores",
        "hw:cpu_max_sockets",
        "hw:cpu_max_threads",
        "hw:cpu_realtime_mask",
        "hw:cpu_sockets",
        "hw:cpu_threads",
        "hw:ephemeral_encryption_format",
        "hw:hide_hypervisor_id",
        "hw:input_bus",
        "hw:locked_memory",
        "hw:max_cpu_cores",
        "hw:max_cpu_sockets",
        "hw:max_cpu_threads",
        "hw:mem_encryption_model",
        "hw:pmu",
        "hw:pointer_model",
        "hw:redirected_usb_ports",
        "hw:serial_port_count",
        "hw:sound_model",
        "hw:tpm_model",
        "hw:tpm_secret_security",
        "hw:usb_model",
        "hw:video_ram",
        "hw:vif_multiqueue_enabled",
        "hw:watchdog_action",
    }
)
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
# Keys of these namespaces with the values that ask for nothing.
_NEUTRAL = {
    "hw:cpu_policy": frozenset({"shared"}),
    "hw:cpu_realtime": _FALSE,
    "hw:cpu_thread_policy": frozenset({"prefer"}),
    "hw:emulator_threads_policy": frozenset({"share"}),
    "hw:ephemeral_encryption": _FALSE,
    "hw:mem_encryption": _FALSE,
    "hw:numa_nodes": frozenset({"1"}),
    "hw:pci_numa_affinity_policy": frozenset({"legacy", "preferred"}),
    "hw:virtio_packed_ring": _FALSE,
    "os:secure_boot": frozenset({"disabled", "optional"}),
}
_RESOURCE_WORDS = ("resource", "trait")


def reject_unsupported(key: str, value: str) -> None:
    """Raise Invalid for an extra spec, other than `resources:` and `trait:`, that asks for an unknown placement."""
    namespace = key.partition(":")[0].lower() if ":" in key else ""
    if namespace.startswith(_RESOURCE_WORDS):
        raise Invalid(
            f"The flavor's extra spec {key}={value} is not understood; "
            "write resources:CLASS, resourcesSUFFIX:CLASS, trait:NAME or traitSUFFIX:NAME."
        )
    if ":" not in key and key not in _WITHOUT_NAMESPACE:
        raise Invalid(
            f"The flavor's extra spec {key}={value} has no namespace, so it asks for a placement that this service "
            "does not support; write trait:NAME or resources:CLASS, or a key with a namespace of your own, such as "
            f"site:{key}, which has no effect."
        )
    if namespace in _PLACEMENT_NAMESPACES or (namespace in _MIXED_NAMESPACES and not _is_harmless(key, value)):
        raise Invalid(f"The flavor's extra spec {key}={value} asks for a placement that this service does not support.")


def _is_harmless(key: str, value: str) -> bool:
    return key in _IGNORED_KEYS or value.lower() in _NEUTRAL.get(key, ())

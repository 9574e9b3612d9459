"""Profile types. Covey creates nodes from os.nova.server only; it stores and validates the other types."""

from covey.model.clustering.spec_schema import Boolean, Integer, List, Map, Schema, String
from covey.model.clustering.spec_types import Operation, SpecType, SpecTypes

_NETWORK = Map(
    "A network or port of the server.",
    items={
        "network": String("A network."),
        "port": String("An existing port."),
        "subnet": String("A subnet of the network."),
        "fixed_ip": String("The fixed IP address in the network."),
        "vnic_type": String("The VNIC type of the port.", default="normal", allowed=("normal", "direct", "macvtap")),
        "security_groups": List("The security groups of the port.", of=String("A security group.")),
        "floating_network": String("The network of the floating IP."),
        "floating_ip": String("The floating IP address."),
    },
)
_DEVICE = Map(
    "A block device.",
    items={
        "uuid": String("The id of the source."),
        "source_type": String("The type of the source.", required=True),
        "destination_type": String("The type of the destination.", required=True),
        "volume_size": Integer("The size in GiB.", required=True, minimum=0),
        "boot_index": Integer("The position in the boot order; a negative one is never booted from."),
        "delete_on_termination": Boolean("Whether it is deleted with the server."),
        "device_name": String("The device name in the server."),
        "disk_bus": String("The bus of the device."),
        "guest_format": String("The file system of the device."),
        "tag": String("A tag for the device."),
        "volume_type": String("The volume type."),
    },
)
_FILE = Map(
    "A file.",
    items={
        "path": String("The path in the server.", required=True),
        "contents": String("The contents of the file.", required=True),
    },
)
_CONTEXT = Map("Stored only; nodes belong to the project of their cluster.")

_SERVER_PROPERTIES: Schema = {
    "flavor": String("The flavor, by id or name.", required=True, updatable=True),
    "image": String("The image, by id or name; none for a server that boots from a volume.", updatable=True),
    "name": String("The name of the server; by default the name of its node.", updatable=True),
    "networks": List("Networks.", of=_NETWORK, updatable=True),
    "metadata": Map("The server's metadata.", updatable=True),
    "scheduler_hints": Map("Hints for the scheduler, such as the server group."),
    "availability_zone": String("The availability zone, unless a policy chooses one."),
    "key_name": String("The key pair."),
    "admin_pass": String("The administrator's password.", updatable=True),
    "user_data": String("User data in base64."),
    "config_drive": Boolean("Whether the server has a config drive."),
    "auto_disk_config": Boolean("Whether the disk has a single partition.", default=True),
    "personality": List("Files to inject into the server.", of=_FILE),
    "security_groups": List("Security groups.", of=String("A security group.")),
    "block_device_mapping_v2": List("Block devices.", of=_DEVICE),
    "context": _CONTEXT,
}

_SERVER_OPERATIONS = {
    "reboot": Operation(
        "Reboot the server.",
        {"type": String("The type of the reboot.", default="SOFT", allowed=("SOFT", "HARD"))},
    ),
    "rebuild": Operation("Rebuild the server from its image."),
    "change_password": Operation(
        "Change the administrator's password.", {"admin_pass": String("The new password.", required=True)}
    ),
    "pause": Operation("Pause the server."),
    "unpause": Operation("Unpause the server."),
    "suspend": Operation("Suspend the server."),
    "resume": Operation("Resume the suspended server."),
    "lock": Operation("Lock the server."),
    "unlock": Operation("Unlock the server."),
    "start": Operation("Start the server."),
    "stop": Operation("Stop the server."),
    "rescue": Operation("Rescue the server with another image.", {"image_ref": String("The image.")}),
    "unrescue": Operation("Unrescue the server."),
    "evacuate": Operation(
        "Evacuate the server from a failed host.",
        {
            "host": String("The destination host."),
            "force": Boolean("Whether to skip the scheduler's check of the host."),
        },
    ),
}

_STACK_PROPERTIES: Schema = {
    "template": Map("The template.", default={}, updatable=True),
    "template_url": String("The URL of the template.", updatable=True),
    "parameters": Map("Values for the template's parameters.", updatable=True),
    "files": Map("Files that the template uses.", updatable=True),
    "environment": Map("The environment of the stack.", updatable=True),
    "timeout": Integer("The timeout of the stack in minutes.", updatable=True),
    "disable_rollback": Boolean("Whether a failed stack is kept.", default=True, updatable=True),
    "context": _CONTEXT,
}

_CONTAINER_PROPERTIES: Schema = {
    "image": String("The image.", required=True),
    "name": String("The name of the container.", updatable=True),
    "command": String("The command of the container."),
    "host_node": String("The node that runs the container."),
    "host_cluster": String("The cluster that runs the container."),
    "port": Integer("The port of the host's Docker daemon.", default=2375),
    "privileged": Boolean("Whether the container is privileged.", default=False),
    "context": _CONTEXT,
}

PROFILE_TYPES = SpecTypes(
    "profile_type",
    (
        SpecType("container.dockerinc.docker", "1.0", "2017.02", _CONTAINER_PROPERTIES, status="EXPERIMENTAL"),
        SpecType("os.heat.stack", "1.0", "2016.04", _STACK_PROPERTIES),
        SpecType("os.nova.server", "1.0", "2016.04", _SERVER_PROPERTIES, _SERVER_OPERATIONS),
    ),
)

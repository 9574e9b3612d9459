"""Profile types. Covey creates nodes from os.nova.server only; it stores and validates the other types."""

from covey.model.clustering.spec_schema import Boolean, Integer, List, Map, Schema, String
from covey.model.clustering.spec_types import Operation, SpecType, SpecTypes

_NETWORK = Map(
    "A network to be in, or a port to use.",
    items={
        "network": String("A network."),
        "port": String("A port that is there already."),
        "subnet": String("A subnet of the network."),
        "fixed_ip": String("The address in the network."),
        "vnic_type": String("What kind of port it is.", default="normal", allowed=("normal", "direct", "macvtap")),
        "security_groups": List("Security groups of the port.", of=String("A security group.")),
        "floating_network": String("The network of a floating address."),
        "floating_ip": String("A floating address."),
    },
)
_DEVICE = Map(
    "A block device.",
    items={
        "uuid": String("What it is made from."),
        "source_type": String("What kind of thing that is.", required=True),
        "destination_type": String("Where it is.", required=True),
        "volume_size": Integer("Its size in GiB.", required=True, minimum=0),
        "boot_index": Integer("When it is tried for a boot; a negative one never is."),
        "delete_on_termination": Boolean("Whether it goes with the server."),
        "device_name": String("What the server calls it."),
        "disk_bus": String("How it is attached."),
        "guest_format": String("How it is formatted."),
        "tag": String("What the tenant calls it."),
        "volume_type": String("What kind of volume it is."),
    },
)
_FILE = Map(
    "A file.",
    items={
        "path": String("Where it is in the server.", required=True),
        "contents": String("What is in it.", required=True),
    },
)
_CONTEXT = Map("Kept as it is; nodes act for the project of their cluster.")

_SERVER_PROPERTIES: Schema = {
    "flavor": String("The flavor, by id or name.", required=True, updatable=True),
    "image": String("The image, by id or name; none for a server that boots from a volume.", updatable=True),
    "name": String("What the server is called; else as its node is.", updatable=True),
    "networks": List("Networks.", of=_NETWORK, updatable=True),
    "metadata": Map("The server's metadata.", updatable=True),
    "scheduler_hints": Map("Hints for the scheduler, such as the server group."),
    "availability_zone": String("The zone, unless a policy says otherwise."),
    "key_name": String("The key pair."),
    "admin_pass": String("The administrator's password.", updatable=True),
    "user_data": String("What the server gets to know, in base64."),
    "config_drive": Boolean("Whether it gets to know it by a drive."),
    "auto_disk_config": Boolean("Whether the disk is one partition.", default=True),
    "personality": List("Files that are put into the server.", of=_FILE),
    "security_groups": List("Security groups.", of=String("A security group.")),
    "block_device_mapping_v2": List("Block devices.", of=_DEVICE),
    "context": _CONTEXT,
}

_SERVER_OPERATIONS = {
    "reboot": Operation(
        "Reboot the server.",
        {"type": String("How.", default="SOFT", allowed=("SOFT", "HARD"))},
    ),
    "rebuild": Operation("Build the server anew from its image."),
    "change_password": Operation(
        "Change the administrator's password.", {"admin_pass": String("The new one.", required=True)}
    ),
    "pause": Operation("Pause the server."),
    "unpause": Operation("Let a paused server go on."),
    "suspend": Operation("Suspend the server."),
    "resume": Operation("Let a suspended server go on."),
    "lock": Operation("Lock the server."),
    "unlock": Operation("Unlock the server."),
    "start": Operation("Start the server."),
    "stop": Operation("Stop the server."),
    "rescue": Operation("Boot the server from another image.", {"image_ref": String("The image.")}),
    "unrescue": Operation("Boot a rescued server from its own disk."),
    "evacuate": Operation(
        "Bring the server away from a host that is lost.",
        {"host": String("Where to."), "force": Boolean("Whether to go there whatever the scheduler thinks.")},
    ),
}

_STACK_PROPERTIES: Schema = {
    "template": Map("The template.", default={}, updatable=True),
    "template_url": String("Where the template is.", updatable=True),
    "parameters": Map("Values for the template's parameters.", updatable=True),
    "files": Map("Files that the template uses.", updatable=True),
    "environment": Map("What else the template uses.", updatable=True),
    "timeout": Integer("Minutes that the stack may take.", updatable=True),
    "disable_rollback": Boolean("Whether a stack that failed stays.", default=True, updatable=True),
    "context": _CONTEXT,
}

_CONTAINER_PROPERTIES: Schema = {
    "image": String("The image.", required=True),
    "name": String("What the container is called.", updatable=True),
    "command": String("What it runs."),
    "host_node": String("The node that it runs on."),
    "host_cluster": String("The cluster that it runs on."),
    "port": Integer("The port on which its host listens.", default=2375),
    "privileged": Boolean("Whether it may do what its host may.", default=False),
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

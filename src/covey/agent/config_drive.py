"""Config drives: ISO files from which cloud-init reads a guest's hostname, keys and user data."""

import base64
import io
import json
from pathlib import Path

import pycdlib
import yaml

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault

_LABELS = {"openstack": "config-2", "nocloud": "cidata"}
_ISO_LEVEL = 4  # the ISO 9660 interchange level without restrictions on names


def write(guest: Guest, path: Path, layout: str) -> None:
    """Write a guest's config drive, in OpenStack's layout or in cloud-init's NoCloud. Raises HypervisorFault."""
    contents = _openstack(guest) if layout == "openstack" else _nocloud(guest)
    iso = pycdlib.PyCdlib()
    try:
        iso.new(interchange_level=_ISO_LEVEL, joliet=3, rock_ridge="1.09", vol_ident=_LABELS[layout])
        made: set[Path] = set()
        for name, content in contents.items():
            for directory in [*Path(name).parents][-2::-1]:
                if directory not in made:
                    iso.add_directory(f"/{directory}", rr_name=directory.name, joliet_path=f"/{directory}")
                    made.add(directory)
            where = f"/{name}"
            iso.add_fp(io.BytesIO(content), len(content), where, rr_name=Path(name).name, joliet_path=where)
        iso.write(str(path))
    except pycdlib.pycdlibexception.PyCdlibException as error:
        raise HypervisorFault(f"Cannot write the config drive: {error}") from error
    finally:
        iso.close()
    path.chmod(0o600)  # user data holds secrets; libvirt gives the file to QEMU's user


def _openstack(guest: Guest) -> dict[str, bytes]:
    document = {
        "uuid": guest.id,
        "name": guest.name,
        "hostname": guest.hostname,
        "launch_index": 0,
        "project_id": guest.project_id,
        "availability_zone": guest.availability_zone,
        "meta": dict(guest.metadata),
        "public_keys": {key.name: key.public_key for key in guest.keys},
        "keys": [{"name": key.name, "type": "ssh", "data": key.public_key} for key in guest.keys],
    }
    contents = {"openstack/latest/meta_data.json": json.dumps(document).encode()}
    if guest.user_data:
        contents["openstack/latest/user_data"] = base64.b64decode(guest.user_data)
    return contents


def _nocloud(guest: Guest) -> dict[str, bytes]:
    document = {
        "instance-id": guest.id,
        "local-hostname": guest.hostname,
        "public-keys": [key.public_key for key in guest.keys],
    }
    user_data = base64.b64decode(guest.user_data) if guest.user_data else b""
    return {"meta-data": yaml.safe_dump(document).encode(), "user-data": user_data}

"""Config drives, read back from their ISO files."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import pycdlib
import pytest
import yaml

from covey.agent import config_drive
from covey.agent.guests import Guest, GuestFlavor, GuestKey

SCRIPT = b"#!/bin/sh\necho \xff\n"
GUEST = Guest(
    id="5f9a1f5e-8a39-4f6c-8d4b-1f3f6e3f0a11",
    name="Web Server",
    hostname="web-server",
    project_id="p1",
    user_id="u1",
    flavor=GuestFlavor("small", 1, 512, 1),
    metadata={"role": "frontend"},
    user_data=base64.b64encode(SCRIPT).decode(),
    keys=(GuestKey("laptop", "ssh-ed25519 AAAA me"), GuestKey("desk", "ssh-rsa BBBB")),
    availability_zone="az-1",
)


def read(path: Path, *names: str) -> tuple[str, list[bytes]]:
    """Return the label of a drive and the contents of files, found by their Rock Ridge and their Joliet names."""
    iso = pycdlib.PyCdlib()
    iso.open(str(path))
    contents = []
    for name in names:
        by_name = []
        for kind in ("rr_path", "joliet_path"):
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, **{kind: f"/{name}"})
            by_name.append(content.getvalue())
        assert by_name[0] == by_name[1]
        contents.append(by_name[0])
    label = iso.pvd.volume_identifier.decode().strip()
    iso.close()
    return label, contents


def test_openstack_layout_has_hostname_keys_metadata_and_user_data(tmp_path: Path) -> None:
    config_drive.write(GUEST, tmp_path / "drive", "openstack")
    label, (text, script) = read(tmp_path / "drive", "openstack/latest/meta_data.json", "openstack/latest/user_data")
    document = json.loads(text)
    assert label == "config-2"
    assert script == SCRIPT
    assert document["uuid"] == GUEST.id
    assert document["hostname"] == "web-server"
    assert document["availability_zone"] == "az-1"
    assert document["meta"] == {"role": "frontend"}
    assert document["public_keys"] == {"laptop": "ssh-ed25519 AAAA me", "desk": "ssh-rsa BBBB"}


def test_nocloud_layout_has_hostname_keys_and_user_data(tmp_path: Path) -> None:
    config_drive.write(GUEST, tmp_path / "drive", "nocloud")
    label, (text, script) = read(tmp_path / "drive", "meta-data", "user-data")
    assert label == "cidata"
    assert script == SCRIPT
    assert yaml.safe_load(text) == {
        "instance-id": GUEST.id,
        "local-hostname": "web-server",
        "public-keys": ["ssh-ed25519 AAAA me", "ssh-rsa BBBB"],
    }


@pytest.mark.parametrize("layout", ["openstack", "nocloud"])
def test_guest_without_user_data_and_keys_has_a_drive_too(tmp_path: Path, layout: str) -> None:
    config_drive.write(replace(GUEST, user_data=None, keys=()), tmp_path / "drive", layout)
    name = "openstack/latest/meta_data.json" if layout == "openstack" else "meta-data"
    _, (text,) = read(tmp_path / "drive", name)
    assert b"web-server" in text


def test_only_the_owner_reads_a_drive(tmp_path: Path) -> None:
    config_drive.write(GUEST, tmp_path / "drive", "openstack")
    assert (tmp_path / "drive").stat().st_mode & 0o777 == 0o600

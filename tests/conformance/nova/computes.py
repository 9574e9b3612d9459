"""Run nova-computes with a fake hypervisor, in the environment of the laboratory: computes.py DIRECTORY

Nova is imported once; each compute is a fork of this process. DIRECTORY/computes/NAME.conf makes a compute, and is read
after DIRECTORY/nova.conf; NAME.pid has its process id. SIGHUP starts every compute that does not run. SIGTERM ends all.
"""

import json
import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

from nova import exception  # type: ignore[import-not-found]
from nova.cmd import compute  # type: ignore[import-not-found]
from nova.virt import fake  # type: ignore[import-not-found]

_MODULE = "nova.virt.laboratory"  # Nova looks for drivers in its own package alone


class Steady(fake.FakeDriverWithoutFakeNodes, fake.FakeLiveMigrateDriverWithNestedCustomResources):  # type: ignore[misc]
    """A fake hypervisor that keeps the identity of its node over restarts, as a real one does.

    A nested provider has ten of CUSTOM_MAGIC.
    """

    vcpus, memory_mb, local_gb = 64, 65536, 1024


class Reshaping(Steady):
    """Moves CUSTOM_MAGIC to a provider of another name when it starts, as a driver does at an upgrade."""

    def update_provider_tree(self, tree: Any, node: str, allocations: dict[str, Any] | None = None) -> None:
        """Describe the node. Raises ReshapeNeeded while the old provider has inventory and no allocations are given."""
        fake.MediumFakeDriver.update_provider_tree(self, tree, node, allocations=allocations)
        old, new = f"{node}-child", f"{node}-magic"
        is_old = tree.exists(old) and "CUSTOM_MAGIC" in tree.data(old).inventory
        if is_old and allocations is None:
            raise exception.ReshapeNeeded
        if not tree.exists(new):
            tree.new_child(name=new, parent=node)
        tree.update_inventory(new, self.child_resources)
        if is_old:
            tree.update_inventory(old, {})
            for held in (allocations or {}).values():
                moved = held["allocations"].pop(tree.data(old).uuid, None)
                if moved is not None:
                    held["allocations"][tree.data(new).uuid] = moved


class Pci(fake.FakeDriverWithoutFakeNodes, fake.FakeDriverWithPciResources):  # type: ignore[misc]
    """Has three network cards with a virtual function each, whose ids an alias can name."""

    vcpus, memory_mb, local_gb = 64, 65536, 1024

    def get_available_resource(self, node: str) -> dict[str, Any]:
        """Return the node's resources."""
        found: dict[str, Any] = super().get_available_resource(node)
        devices = json.loads(found["pci_passthrough_devices"])
        for device in devices:
            device |= {"vendor_id": "15b3", "product_id": "1017" if device["dev_type"] == "type-PF" else "1018"}
        return found | {"pci_passthrough_devices": json.dumps(devices)}


def _run(directory: Path, name: str) -> None:
    drivers = types.ModuleType(_MODULE)
    for driver in (Steady, Reshaping, Pci):
        setattr(drivers, driver.__name__, driver)
    sys.modules[_MODULE] = drivers
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.argv = [
        "nova-compute",
        *(f"--config-file={directory / file}" for file in ("nova.conf", f"computes/{name}.conf")),
    ]
    sys.exit(compute.main())


def main(directory: Path) -> None:
    """Start the computes and wait for signals."""
    children: dict[str, int] = {}

    def start(*_: object) -> None:
        for file in sorted((directory / "computes").glob("*.conf")):
            name = file.stem
            if name in children and os.waitpid(children[name], os.WNOHANG) == (0, 0):
                continue
            children[name] = os.fork()
            if not children[name]:
                _run(directory, name)
            file.with_suffix(".pid").write_text(str(children[name]))

    def end(*_: object) -> None:
        for child in children.values():
            os.kill(child, signal.SIGKILL)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, start)
    start()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

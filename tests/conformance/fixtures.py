"""The fixtures of Placement's suites, created over the API. Runs in the virtual environment that has gabbi.

The classes and their objects have the names of Placement's own fixtures, which the suites use. The runner starts a
service with the configuration (access rules, CORS) that a suite needs.
"""

import json
import os
import urllib.request
import uuid
from typing import Any

from gabbi import fixture  # type: ignore[import-not-found]

URL = "COVEY_CONFORMANCE_URL"
SHARING = "MISC_SHARES_VIA_AGGREGATE"

_FRESH_UUIDS = (
    "RP_UUID", "RP_NAME", "RP_UUID1", "RP_NAME1", "RP_UUID2", "RP_NAME2", "PROJECT_ID", "ADMIN_PROJECT_ID",
    "SERVICE_PROJECT_ID", "USER_ID", "PROJECT_ID_ALT", "USER_ID_ALT", "INSTANCE_UUID", "MIGRATION_UUID",
    "CONSUMER_UUID", "PARENT_PROVIDER_UUID", "ALT_PARENT_PROVIDER_UUID",
)  # fmt: skip
_CLASSES = {
    "CUSTOM_RES_CLASS": "CUSTOM_IRON_NFV",
    "CUSTOM_RES_CLASS1": "CUSTOM_IRON_NFV1",
    "CUSTOM_RES_CLASS2": "CUSTOM_IRON_NFV2",
}


def fresh(*names: str) -> None:
    """Set each of these variables of the suite to a new uuid."""
    os.environ.update({name: str(uuid.uuid4()) for name in names})


def call(method: str, path: str, body: object = None, version: str = "1.37") -> Any:
    """Send a request as an administrator and return the body. Raises HTTPError when it fails."""
    headers = {
        "X-Auth-Token": "admin",
        "X-Roles": "admin,service",
        "Content-Type": "application/json",
        "OpenStack-API-Version": f"placement {version}",
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ[URL] + path, data, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        text = answer.read()
    return json.loads(text) if text else None


def provider(
    name: str, *aggregates: str, parent: str | None = None, variable: str | None = None, key: str | None = None
) -> str:
    """Create a provider in aggregates and return its uuid; store it in a variable of the suite, if given."""
    created: str = key or str(uuid.uuid4())
    call("POST", "/resource_providers", {"name": name, "uuid": created, "parent_provider_uuid": parent})
    if aggregates:
        join(created, *aggregates)
    if variable is not None:
        os.environ[variable] = created
    return created


def join(key: str, *aggregates: str) -> None:
    """Set the aggregates of a provider, with an old version that keeps its generation."""
    call("PUT", f"/resource_providers/{key}/aggregates", list(aggregates), "1.1")


def stock(key: str, **has: int | dict[str, Any]) -> None:
    """Add inventories to a provider; max_unit is the total unless given."""
    for kind, one in has.items():
        if kind.startswith("CUSTOM_"):
            call("PUT", f"/resource_classes/{kind}")
        entry = one if isinstance(one, dict) else {"total": one}
        body = {"resource_class": kind, "max_unit": entry["total"], **entry}
        call("POST", f"/resource_providers/{key}/inventories", body)


def mark(key: str, *traits: str) -> None:
    """Set the traits of a provider."""
    for trait in traits:
        if trait.startswith("CUSTOM_"):
            call("PUT", f"/traits/{trait}")
    generation = call("GET", f"/resource_providers/{key}")["generation"]
    body = {"traits": traits, "resource_provider_generation": generation}
    call("PUT", f"/resource_providers/{key}/traits", body)


def hold(key: str, project: str, user: str, **resources: int) -> str:
    """Allocate resources of a provider to a new consumer of unknown type; return the consumer."""
    consumer = str(uuid.uuid4())
    body = {"allocations": {key: {"resources": resources}}, "project_id": project, "user_id": user}
    call("PUT", f"/allocations/{consumer}", body, "1.12")
    return consumer


class APIFixture(fixture.GabbiFixture):  # type: ignore[misc]
    """An empty service, and names for the objects of the suite."""

    def start_fixture(self) -> None:
        fresh(*_FRESH_UUIDS)
        os.environ.update(_CLASSES)
        self.create_objects()

    def create_objects(self) -> None:
        """Create the objects of the fixture."""


class CORSFixture(APIFixture):
    """Served with CORS."""


class OpenPolicyFixture(APIFixture):
    """Served with access rules that allow every request."""


class LegacyRBACPolicyFixture(APIFixture):
    """Served with the old defaults of access rules."""


class SecureRBACPolicyFixture(APIFixture):
    """Served with the new defaults of access rules."""


class AllocationFixture(APIFixture):
    """One provider with allocations of two users, one of whom has two consumers."""

    def create_objects(self) -> None:
        fresh("ALT_USER_ID", "ALT_RP_UUID", "ALT_RP_NAME")
        project, user = os.environ["PROJECT_ID"], os.environ["USER_ID"]
        key = provider(os.environ["RP_NAME"], key=os.environ["RP_UUID"])
        stock(key, DISK_GB={"total": 2048, "step_size": 10, "min_unit": 10, "max_unit": 1000}, VCPU=10)
        os.environ["CONSUMER_0"] = hold(key, project, user, DISK_GB=1000)
        os.environ["CONSUMER_ID"] = hold(key, project, user, VCPU=6)
        os.environ["ALT_CONSUMER_ID"] = hold(key, project, os.environ["ALT_USER_ID"], DISK_GB=20, VCPU=1)


class SharedStorageFixture(APIFixture):
    """Two nodes, one without a disk, in an aggregate with two shared stores; each with a NIC below each NUMA cell."""

    def create_objects(self) -> None:
        fresh("AGG_UUID")
        aggregate = os.environ["AGG_UUID"]
        node = {"total": 24, "allocation_ratio": 16.0}, {"total": 131072, "allocation_ratio": 1.5}
        store = {"total": 2000, "reserved": 100}
        for n in "12":
            root = provider(f"cn{n}", aggregate, variable=f"CN{n}_UUID")
            stock(root, VCPU=node[0], MEMORY_MB=node[1])
            for m in "12":
                cell = provider(f"numa{n}_{m}", parent=root, variable=f"NUMA{n}_{m}_UUID")
                stock(provider(f"pf{n}_{m}", parent=cell, variable=f"PF{n}_{m}_UUID"), SRIOV_NET_VF=8)
        mark(os.environ["CN1_UUID"], "HW_CPU_X86_SSE", "HW_CPU_X86_SSE2")
        stock(os.environ["CN2_UUID"], DISK_GB=store)
        for name in ("ss", "ss2"):
            shared = provider(name, aggregate, variable=f"{name.upper()}_UUID")
            stock(shared, DISK_GB=store)
            mark(shared, SHARING)


class NUMAAggregateFixture(APIFixture):
    """Two nodes of two NUMA cells, and two shared stores: for both nodes, and for one of the cells."""

    def create_objects(self) -> None:
        fresh("AGGA_UUID", "AGGB_UUID", "AGGC_UUID")
        a, b, c = (os.environ[f"AGG{letter}_UUID"] for letter in "ABC")
        first, second = provider("cn1", a, variable="CN1_UUID"), provider("cn2", a, b, variable="CN2_UUID")
        cells = [
            provider("numa1_1", c, parent=first, variable="NUMA1_1_UUID"),
            provider("numa1_2", parent=first, variable="NUMA1_2_UUID"),
            provider("numa2_1", parent=second, variable="NUMA2_1_UUID"),
            provider("numa2_2", parent=second, variable="NUMA2_2_UUID"),
        ]
        for cell in cells:
            stock(cell, VCPU={"total": 24, "allocation_ratio": 16.0})
        for shared in (provider("ss1", a, variable="SS1_UUID"), provider("ss2", c, variable="SS2_UUID")):
            stock(shared, DISK_GB={"total": 2000, "reserved": 100})
            mark(shared, SHARING)


class NUMANetworkFixture(APIFixture):
    """A node of NUMA cells, accelerators and network agents; a plain one with three NICs; and a shared store."""

    def create_objects(self) -> None:
        self._build(None, None)

    def _build(self, above_first: str | None, above_second: str | None) -> None:
        fresh("AGGA_UUID")
        aggregate = os.environ["AGGA_UUID"]
        project, user = str(uuid.uuid4()), str(uuid.uuid4())
        shared = provider("ss1", aggregate, variable="SS1_UUID")
        mark(shared, SHARING)
        stock(shared, DISK_GB=2000)
        first = provider("cn1", aggregate, parent=above_first, variable="CN1_UUID")
        mark(first, "COMPUTE_VOLUME_MULTI_ATTACH")
        self._cells(first, project, user)
        self._agents(first)
        second = provider("cn2", aggregate, parent=above_second, variable="CN2_UUID")
        stock(second, VCPU=8)
        hold(second, project, user, VCPU=3)
        stock(second, MEMORY_MB={"total": 2048, "min_unit": 1024, "step_size": 128}, DISK_GB=1000)
        mark(second, "CUSTOM_FOO")
        self._nics(second)

    def _cells(self, root: str, project: str, user: str) -> None:
        memory = {"min_unit": 512, "step_size": 256}, {"min_unit": 256, "max_unit": 1024}
        cells = []
        for n in (0, 1):
            cell = provider(f"numa{n}", parent=root, variable=f"NUMA{n}_UUID")
            mark(cell, "HW_NUMA_ROOT", *(["CUSTOM_FOO"] if n else []))
            stock(cell, VCPU=4, MEMORY_MB={"total": 2048, **memory[n]})
            cells.append(cell)
        hold(cells[0], project, user, VCPU=2)
        stock(provider("fpga0", parent=cells[0], variable="FPGA0_UUID"), FPGA=1)
        stock(provider("pgpu0", parent=cells[0], variable="PGPU0_UUID"), VGPU=8)
        for n in (0, 1):
            stock(provider(f"fpga1_{n}", parent=cells[1], variable=f"FPGA1_{n}_UUID"), FPGA=1)

    def _agents(self, root: str) -> None:
        sriov = provider("sriov_agent", parent=root, variable="SRIOV_AGENT_UUID")
        mark(sriov, "CUSTOM_VNIC_TYPE_DIRECT")
        for n in (1, 2):
            device = provider(f"esn{n}", parent=sriov, variable=f"ESN{n}_UUID")
            mark(device, f"CUSTOM_PHYSNET{n}")
            stock(device, NET_BW_EGR_KILOBIT_PER_SEC=10000 * n)
        ovs = provider("ovs_agent", parent=root, variable="OVS_AGENT_UUID")
        mark(ovs, "CUSTOM_VNIC_TYPE_NORMAL")
        bridge = provider("br_int", parent=ovs, variable="BR_INT_UUID")
        mark(bridge, "CUSTOM_PHYSNET0")
        stock(bridge, NET_BW_EGR_KILOBIT_PER_SEC=1000)

    def _nics(self, root: str) -> None:
        functions = {1: (4, (1, 2)), 2: (2, (1, 2, 1, 2)), 3: (8, (1,))}
        nics = {n: provider(f"nic{n}", parent=root, variable=f"NIC{n}_UUID") for n in functions}
        for n, (each, networks) in functions.items():
            mark(nics[n], "CUSTOM_HW_NIC_ROOT")
            for m, network in enumerate(networks, 1):
                function = provider(f"pf{n}_{m}", parent=nics[n], variable=f"PF{n}_{m}_UUID")
                mark(function, f"CUSTOM_PHYSNET{network}")
                stock(function, CUSTOM_VF=each)


class DeepNUMANetworkFixture(NUMANetworkFixture):
    """The same, with parents and a grandparent above the nodes."""

    def create_objects(self) -> None:
        top = provider("gp1")
        self._build(provider("p1", parent=top), provider("p2", parent=top))


class NonSharedStorageFixture(APIFixture):
    """Three nodes with their own disks, and empty aggregates."""

    def create_objects(self) -> None:
        fresh("AGGA_UUID", "AGGB_UUID", "AGGC_UUID")
        for n in "123":
            stock(provider(f"cn{n}", variable=f"CN{n}_UUID"), VCPU=24, MEMORY_MB=131072, DISK_GB=2000)


class GranularFixture(APIFixture):
    """Three nodes and three shared providers, in overlapping aggregates."""

    def create_objects(self) -> None:
        fresh("AGGA", "AGGB", "AGGC")
        a, b, c = (os.environ[f"AGG{letter}"] for letter in "ABC")
        node = {"VCPU": 8, "MEMORY_MB": 4096}
        net = {"SRIOV_NET_VF": 8, "CUSTOM_NET_MBPS": 4000}
        left = provider("cn_left", a, variable="CN_LEFT")
        stock(left, **node, DISK_GB=500, VGPU=8, **net)
        mark(left, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_GPU_API_DXVA", "HW_NIC_DCB_PFC", "CUSTOM_FOO")
        middle = provider("cn_middle", a, b, variable="CN_MIDDLE")
        stock(middle, **node, **net)
        mark(middle, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "HW_NIC_ACCEL_TLS")
        right = provider("cn_right", b, c, variable="CN_RIGHT")
        stock(right, **node, DISK_GB=500, VGPU={"total": 8, "max_unit": 2})
        mark(right, "HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD")
        disk = provider("shr_disk_1", a, variable="SHR_DISK_1")
        stock(disk, DISK_GB=1000)
        mark(disk, SHARING, "CUSTOM_DISK_SSD")
        disk = provider("shr_disk_2", a, b, variable="SHR_DISK_2")
        stock(disk, DISK_GB=1000)
        mark(disk, SHARING)
        shared_net = provider("shr_net", c, variable="SHR_NET")
        stock(shared_net, SRIOV_NET_VF=16, CUSTOM_NET_MBPS=40000)
        mark(shared_net, SHARING)


class NeutronQoSMultiSegmentFixture(APIFixture):
    """Four nodes with bridges and physical functions on networks: elsewhere, one segment, the other, and both."""

    def create_objects(self) -> None:
        networks = (("OTHER",), ("MSN_S1",), ("MSN_S2",), ("MSN_S1", "MSN_S2"))
        for n, segments in enumerate(networks):
            narrow = len(segments) > 1
            name = f"compute{n}"
            root = provider(name, variable=name)
            stock(root, VCPU=8, MEMORY_MB=4096, DISK_GB=500)
            ovs = provider(f"{name}:Open vSwitch agent", parent=root, variable=f"{name}:ovs_agent")
            stock(ovs, NET_PACKET_RATE_KILOPACKET_PER_SEC=1000)
            normal, direct = ("NORMAL",), ("DIRECT", "DIRECT_PHYSICAL", "MACVTAP")
            mark(ovs, *_vnics(normal))
            sriov = provider(f"{name}:NIC Switch agent", parent=root, variable=f"{name}:sriov_agent")
            mark(sriov, *_vnics(direct))
            for m, segment in enumerate(segments):
                bridge = provider(
                    f"{name}:Open vSwitch agent:br-ex{m + 1 if m else ''}",
                    parent=ovs,
                    variable=f"{name}:br_ex{m + 1 if m else ''}",
                )
                _network(bridge, 1000 if narrow else 5000, segment, normal)
                function = provider(f"{name}:NIC Switch agent:enp129s0f{m}", parent=sriov, variable=f"{name}:pf{m}")
                _network(function, 1000 if narrow else 10000, segment, direct)


def _vnics(kinds: tuple[str, ...]) -> list[str]:
    return [f"CUSTOM_VNIC_TYPE_{kind}" for kind in kinds]


def _network(key: str, bandwidth: int, segment: str, vnics: tuple[str, ...]) -> None:
    stock(key, NET_BW_EGR_KILOBIT_PER_SEC=bandwidth, NET_BW_IGR_KILOBIT_PER_SEC=bandwidth)
    mark(key, *_vnics(vnics), f"CUSTOM_PHYSNET_{segment}")

"""Times the filter and weigh step of Nova. Runs in a virtual environment with Nova.

Reads parameters as JSON from standard input and writes timings as JSON to standard output. Included is what
Nova's scheduler does in memory for a request: its default filters through HostFilterHandler.get_filtered_objects,
its default weighers through HostWeightHandler.get_weighed_objects and, in a batch, consume_from_request. Left out are
the call to Placement, the database, RPC, and the building of host states.
"""

import json
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import nova.conf  # type: ignore[import-not-found]
from nova import objects
from nova.scheduler import filters, host_manager, weights  # type: ignore[import-not-found]

CELL = "00000000-0000-4000-8000-00000000ce11"
POLICY = "anti-affinity"

Timings = list[tuple[float, float]]  # (wall, CPU) seconds


def uuid(kind: int, number: int) -> str:
    return f"00000000-0000-4000-8000-{kind:04d}{number:08d}"


class Step:
    """The handlers, filters and weighers that Nova enables by default."""

    def __init__(self) -> None:
        chosen = nova.conf.CONF.filter_scheduler
        self._filter_handler = filters.HostFilterHandler()
        known = self._filter_handler.get_matching_classes(chosen.available_filters)
        by_name = {each.__name__: each for each in known}
        self._filters = [by_name[name]() for name in chosen.enabled_filters]
        self._weight_handler = weights.HostWeightHandler()
        self._weighers = [each() for each in self._weight_handler.get_matching_classes(chosen.weight_classes)]

    def names(self) -> dict[str, list[str]]:
        return {
            "filters": [type(each).__name__ for each in self._filters],
            "weighers": [type(each).__name__ for each in self._weighers],
        }

    def __call__(self, spec: Any, hosts: list[Any], index: int) -> list[Any]:
        """Return the hosts that pass the filters, best first."""
        left = self._filter_handler.get_filtered_objects(self._filters, hosts, spec, index)
        return [weighed.obj for weighed in self._weight_handler.get_weighed_objects(self._weighers, left, spec)]


def host_states(parameters: dict[str, Any]) -> list[Any]:
    """Return the host states of Nova's scheduler; the members of the group are the only instances."""
    now = datetime.now(UTC)
    members = {row: uuid(1, number) for number, row in enumerate(parameters["members"])}
    states = []
    for row, (used_vcpus, used_memory_mb, used_disk_gb) in enumerate(parameters["used"]):
        state = host_manager.HostState(f"n{row}", f"n{row}", CELL)
        compute = objects.ComputeNode(
            uuid=uuid(2, row),
            vcpus=parameters["vcpus"],
            vcpus_used=used_vcpus,
            memory_mb=parameters["memory_mb"],
            memory_mb_used=used_memory_mb,
            free_ram_mb=parameters["memory_mb"] - used_memory_mb,
            local_gb=parameters["disk_gb"],
            local_gb_used=used_disk_gb,
            free_disk_gb=parameters["disk_gb"] - used_disk_gb,
            disk_available_least=parameters["disk_gb"] - used_disk_gb,
            hypervisor_type="QEMU",
            hypervisor_version=8_000_000,
            hypervisor_hostname=f"n{row}",
            host_ip="127.0.0.1",
            cpu_info="{}",
            updated_at=now,
            numa_topology=None,
            pci_device_pools=None,
            supported_hv_specs=[objects.HVSpec.from_list(["x86_64", "kvm", "hvm"])],
            stats={},
            metrics="[]",
            cpu_allocation_ratio=parameters["vcpu_ratio"],
            ram_allocation_ratio=1.0,
            disk_allocation_ratio=1.0,
        )
        service = {
            "host": f"n{row}",
            "binary": "nova-compute",
            "disabled": False,
            "forced_down": False,
            "last_seen_up": now,
            "created_at": now,
            "updated_at": now,
        }
        inside = {members[row]: objects.Instance(uuid=members[row])} if row in members else {}
        state.update(compute, service, aggregates(row, parameters["aggregate_sizes"]), inside)
        states.append(state)
    return states


def aggregates(row: int, sizes: list[int]) -> list[Any]:
    """Return the host's aggregate of each size, such as its rack."""
    return [
        objects.Aggregate(
            id=1 + kind * 1_000_000 + row // size, name=f"a{kind}-{row // size}", hosts=[], metadata={"kind": str(kind)}
        )
        for kind, size in enumerate(sizes)
    ]


def request(parameters: dict[str, Any], batch: int) -> Any:
    members = [uuid(1, number) for number in range(len(parameters["members"]))] + [uuid(3, n) for n in range(batch)]
    group = objects.InstanceGroup(
        uuid=uuid(4, 0),
        name="g",
        policies=[POLICY],
        policy=POLICY,
        rules={},
        members=members,
        hosts=[f"n{row}" for row in parameters["members"]],
    )
    vcpus, memory_mb, disk_gb = parameters["amounts"]
    return objects.RequestSpec(
        instance_uuid=uuid(3, 0),
        num_instances=batch,
        project_id="p",
        flavor=objects.Flavor(
            vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb, ephemeral_gb=0, swap=0, extra_specs={}
        ),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_group=group,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        numa_topology=None,
        requested_destination=None,
        scheduler_hints={},
        force_hosts=None,
        force_nodes=None,
        ignore_hosts=None,
        limits=objects.SchedulerLimits(),
        retry=None,
    )


def place(step: Step, spec: Any, hosts: list[Any], number: int) -> list[Any]:
    """Place one instance as the scheduler does; return the hosts for the next instance."""
    spec.instance_uuid = uuid(3, number)
    hosts = step(spec, hosts, number)
    best = hosts[0]
    best.consume_from_request(spec)
    spec.instance_group.hosts.append(best.host)
    best.instances[spec.instance_uuid] = objects.Instance(uuid=spec.instance_uuid)
    return hosts


def singles(step: Step, parameters: dict[str, Any]) -> Timings:
    """Time decisions for one server each, on the same hosts, without consuming resources."""
    hosts, spec = host_states(parameters), request(parameters, 1)
    step(spec, hosts, 0)  # fills caches of classes and options
    return [_timed(lambda: step(spec, hosts, 0)) for _ in range(parameters["repeats"])]


def batch(step: Step, parameters: dict[str, Any]) -> Timings:
    """Time one request for many servers, server by server, until the time limit."""
    hosts, spec = host_states(parameters), request(parameters, parameters["batch"])
    timings: Timings = []
    until = time.monotonic() + parameters["longest_s"]
    for number in range(parameters["batch"]):
        if time.monotonic() > until:
            break
        wall, cpu = time.perf_counter(), time.process_time()
        hosts = place(step, spec, hosts, number)
        timings.append((time.perf_counter() - wall, time.process_time() - cpu))
    assert len(set(spec.instance_group.hosts)) == len(parameters["members"]) + len(timings)
    return timings


def _timed(call: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parameters = json.load(sys.stdin)
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("service_down_time", 1_000_000)  # hosts stay up for the whole run
    objects.register_all()
    step = Step()
    answer = {"version": metadata.version("nova"), **step.names(), "singles": singles(step, parameters)}
    if parameters["batch"]:
        answer["batch"] = batch(step, parameters)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

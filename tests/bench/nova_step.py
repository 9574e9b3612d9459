"""Nova's own filter and weigh step, timed. Run by the Python of a virtual environment that has Nova, not by ours.

Reads a question as JSON from standard input and writes its timings as JSON to standard output. Included is what
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
        """The hosts that may, best first."""
        left = self._filter_handler.get_filtered_objects(self._filters, hosts, spec, index)
        return [weighed.obj for weighed in self._weight_handler.get_weighed_objects(self._weighers, left, spec)]


def host_states(question: dict[str, Any]) -> list[Any]:
    """Every host as Nova's scheduler has it in memory; members of the group are the only instances."""
    now = datetime.now(UTC)
    members = {row: uuid(1, number) for number, row in enumerate(question["members"])}
    states = []
    for row, (used_vcpus, used_memory_mb, used_disk_gb) in enumerate(question["used"]):
        state = host_manager.HostState(f"n{row}", f"n{row}", CELL)
        compute = objects.ComputeNode(
            uuid=uuid(2, row),
            vcpus=question["vcpus"],
            vcpus_used=used_vcpus,
            memory_mb=question["memory_mb"],
            memory_mb_used=used_memory_mb,
            free_ram_mb=question["memory_mb"] - used_memory_mb,
            local_gb=question["disk_gb"],
            local_gb_used=used_disk_gb,
            free_disk_gb=question["disk_gb"] - used_disk_gb,
            disk_available_least=question["disk_gb"] - used_disk_gb,
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
            cpu_allocation_ratio=question["vcpu_ratio"],
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
        state.update(compute, service, aggregates(row, question["aggregate_sizes"]), inside)
        states.append(state)
    return states


def aggregates(row: int, sizes: list[int]) -> list[Any]:
    """One aggregate of each size that the host stands in, such as its rack."""
    return [
        objects.Aggregate(
            id=1 + kind * 1_000_000 + row // size, name=f"a{kind}-{row // size}", hosts=[], metadata={"kind": str(kind)}
        )
        for kind, size in enumerate(sizes)
    ]


def request(question: dict[str, Any], batch: int) -> Any:
    members = [uuid(1, number) for number in range(len(question["members"]))] + [uuid(3, n) for n in range(batch)]
    group = objects.InstanceGroup(
        uuid=uuid(4, 0),
        name="g",
        policies=[POLICY],
        policy=POLICY,
        rules={},
        members=members,
        hosts=[f"n{row}" for row in question["members"]],
    )
    vcpus, memory_mb, disk_gb = question["amounts"]
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
    """One instance of a request, as the scheduler goes about it; the hosts that the next one has to choose from."""
    spec.instance_uuid = uuid(3, number)
    hosts = step(spec, hosts, number)
    best = hosts[0]
    best.consume_from_request(spec)
    spec.instance_group.hosts.append(best.host)
    best.instances[spec.instance_uuid] = objects.Instance(uuid=spec.instance_uuid)
    return hosts


def singles(step: Step, question: dict[str, Any]) -> Timings:
    """Decisions for one server each, on the same hosts, none of them carried out."""
    hosts, spec = host_states(question), request(question, 1)
    step(spec, hosts, 0)  # caches of classes and options fill up
    return [_timed(lambda: step(spec, hosts, 0)) for _ in range(question["repeats"])]


def batch(step: Step, question: dict[str, Any]) -> Timings:
    """One request for many servers, or as many of them as there is time for; each timing is that of one server."""
    hosts, spec = host_states(question), request(question, question["batch"])
    timings: Timings = []
    until = time.monotonic() + question["longest_s"]
    for number in range(question["batch"]):
        if time.monotonic() > until:
            break
        wall, cpu = time.perf_counter(), time.process_time()
        hosts = place(step, spec, hosts, number)
        timings.append((time.perf_counter() - wall, time.process_time() - cpu))
    assert len(set(spec.instance_group.hosts)) == len(question["members"]) + len(timings)
    return timings


def _timed(call: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    question = json.load(sys.stdin)
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("service_down_time", 1_000_000)  # hosts that reported once stay up for the whole run
    objects.register_all()
    step = Step()
    answer = {"version": metadata.version("nova"), **step.names(), "singles": singles(step, question)}
    if question["batch"]:
        answer["batch"] = batch(step, question)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

"""Times CoveyFilter beside the filter and weigh step of Nova. Runs in a virtual environment with Nova and covey-nova.

Reads parameters as JSON from standard input, those of `nova_step` and the uuids of Covey's resource providers. Writes
timings as JSON to standard output. CoveyFilter asks a running Covey; its CPU time is that of this process alone.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import nova.conf  # type: ignore[import-not-found]
from covey_nova import CoveyFilter  # type: ignore[import-not-found]
from keystoneauth1 import loading
from nova import objects
from nova_step import POLICY, Step, _timed, host_states, request, uuid  # type: ignore[import-not-found]


def main() -> None:
    parameters = json.load(sys.stdin)
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.register_opts(loading.get_auth_plugin_conf_options("admin_token"), "covey")
    options = {"auth_type": "admin_token", "endpoint": parameters["url"], "token": "admin"}
    for name, value in options.items():
        nova.conf.CONF.set_override(name, value, "covey")
    nova.conf.CONF.set_override("service_down_time", 1_000_000)  # hosts stay up for the whole run
    objects.register_all()
    hosts, spec = host_states(parameters), request(parameters, 1)
    for host, key in zip(hosts, parameters["uuids"], strict=True):
        host.uuid = key
    group = spec.instance_group
    group.policy, group.project_id, group.user_id = POLICY, "p", "u"
    members = [uuid(1, number) for number in range(len(parameters["members"]))]
    step, covey = Step(), CoveyFilter()

    def boot(number: int, select: Callable[[], Any]) -> tuple[float, float]:
        """Time a selection for a new instance. Both sides exclude the hosts of the members."""
        spec.instance_uuid = uuid(3, number)
        group.members = [*members, spec.instance_uuid]
        selected = list[Any]()
        timing: tuple[float, float] = _timed(lambda: selected.extend(select()))
        assert len(selected) == len(hosts) - len(members), f"{len(selected)} hosts are admitted"
        return timing

    stepped, filtered = partial(step, spec, hosts, 0), partial(covey.filter_all, hosts, spec)
    boot(0, stepped)
    boot(0, filtered)
    answer = {
        "version": metadata.version("nova"),
        "nova": [boot(0, stepped) for _ in range(parameters["repeats"])],
        "filter": [boot(number + 1, filtered) for number in range(parameters["requests"])],
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

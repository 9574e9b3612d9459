"""`python -m tests.bench.trace`: count the source files of Covey that take part in a request, warm and in process.

A profiler sees every Python call of every thread, from the WSGI server's call to the response. A boot is traced
up to its commit; a scale-out and a rebalance include the work that follows them.
"""

import argparse
import base64
import io
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from wsgiref.util import setup_testing_defaults

import bcrypt
import yaml

import covey
from covey import bootstrap
from covey.model.flavors import Flavor
from covey.model.ids import FlavorId, ImageId
from covey.model.images import Visibility
from tests.build import NOW, a_host, an_image

_SOURCE = Path(covey.__file__).parent
_IMAGE = "11111111-2222-3333-4444-555555555555"
_PASSWORD = "trace"
_WARM_UPS = 3
_WORK_S = 3.0


@dataclass
class Trace:
    """The files that ran Python code while the profiler was on."""

    files: set[str] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.files.add(frame.f_code.co_filename)

    @contextmanager
    def on(self) -> Iterator[None]:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def of_covey(self) -> list[str]:
        return sorted(str(Path(name).relative_to(_SOURCE)) for name in self.files if name.startswith(f"{_SOURCE}/"))


class Service:
    """The application as a serving process builds it, with HTTP Basic, and a worker that runs when called."""

    def __init__(self, directory: Path) -> None:
        settings = bootstrap.Settings(config_files=(str(_configure(directory)),))
        conf = settings.load()
        bootstrap.prepare(conf)
        with bootstrap.store(conf).write() as tx:
            tx.hosts.add([a_host(f"node-{i}") for i in range(8)], NOW)
            tx.flavors.add([Flavor(FlavorId("small"), "small", 1, 1024, 10)], NOW)
            tx.images.add([an_image(id=ImageId(_IMAGE), visibility=Visibility.PUBLIC)])
        self._app = bootstrap.wsgi(settings)
        (self._worker,) = bootstrap.workers(conf, 1)

    def ask(self, method: str, path: str, body: Any = None, version: str = "compute 2.1000") -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        route, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": route,
            "QUERY_STRING": query,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(raw)),
            "wsgi.input": io.BytesIO(raw),
            "HTTP_AUTHORIZATION": "Basic " + base64.b64encode(f"root:{_PASSWORD}".encode()).decode(),
            "HTTP_OPENSTACK_API_VERSION": version,
        }
        setup_testing_defaults(environ)
        status: list[str] = []
        answer = b"".join(self._app(environ, lambda line, *_: status.append(line)))  # type: ignore[arg-type]
        assert status[0][0] == "2", (status, answer)
        return json.loads(answer) if answer else None

    def boot(self, name: str = "s", **fields: Any) -> str:
        hints = fields.pop("hints", {})
        server = {"name": name, "flavorRef": "small", "imageRef": _IMAGE, "networks": "none", **fields}
        created = self.ask("POST", "/compute/v2.1/servers", {"server": server, "os:scheduler_hints": hints})
        return str(created["server"]["id"])

    def group(self, policy: str) -> str:
        body = {"server_group": {"name": "g", "policies": [policy]}}
        return str(self.ask("POST", "/compute/v2.1/os-server-groups", body)["server_group"]["id"])

    def work(self) -> None:
        """Run the worker for a while: an action of a cluster looks at its servers again after a moment."""
        end = time.monotonic() + _WORK_S
        while time.monotonic() < end:
            self._worker.run_once()
            time.sleep(0.02)


def _configure(directory: Path) -> Path:
    users = directory / "users.yaml"
    hashed = bcrypt.hashpw(_PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    root = {"name": "root", "password_hash": hashed, "project": "ops", "roles": ["admin"]}
    users.write_text(yaml.safe_dump({"projects": [{"id": "ops", "name": "ops"}], "users": [root]}))
    (directory / "policy.yaml").touch()
    options = [
        ("database", "connection", f"sqlite:///{directory}/covey.db"),
        ("api", "auth_strategy", "basic"),
        ("api", "users_file", str(users)),
        ("oslo_policy", "policy_file", str(directory / "policy.yaml")),
        ("driver", "latency_s", "0"),
        ("log", "level", "error"),
    ]
    written = directory / "covey.conf"
    written.write_text("".join(f"[{group}]\n{option} = {value}\n" for group, option, value in options))
    return written


def _boot(service: Service) -> Callable[[], object]:
    for _ in range(_WARM_UPS):
        service.boot()
    return service.boot


def _boot_in_group(service: Service) -> Callable[[], object]:
    group = service.group("anti-affinity")
    for _ in range(_WARM_UPS):
        service.boot(hints={"group": group})
    return lambda: service.boot(hints={"group": group})


def _candidates(service: Service) -> Callable[[], object]:
    def ask() -> object:
        path = "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512"
        return service.ask("GET", path, version="placement 1.39")

    for _ in range(_WARM_UPS):
        ask()
    return ask


def _scale_out(service: Service) -> Callable[[], object]:
    spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small", "image": _IMAGE}}
    profile = service.ask(
        "POST", "/clustering/v1/profiles", {"profile": {"name": "p", "spec": spec}}, "clustering 1.14"
    )
    cluster = {"name": "c", "profile_id": profile["profile"]["id"], "desired_capacity": 1}
    created = service.ask("POST", "/clustering/v1/clusters", {"cluster": cluster}, "clustering 1.14")
    path = f"/clustering/v1/clusters/{created['cluster']['id']}/actions"

    def scale() -> None:
        service.ask("POST", path, {"scale_out": {"count": 1}}, "clustering 1.14")
        service.work()

    service.work()
    scale()
    return scale


def _rebalance(service: Service) -> Callable[[], object]:
    def misplaced_group() -> str:
        group = service.group("anti-affinity")
        for _ in range(2):
            service.boot(hints={"group": group}, availability_zone="nova:node-0")
        service.work()
        return group

    def rebalance(group: str) -> None:
        service.ask("POST", f"/compute/v2.1/os-server-groups/{group}/action", {"rebalance": {}})
        service.work()

    rebalance(misplaced_group())
    group = misplaced_group()
    return lambda: rebalance(group)


_SCENARIOS: dict[str, Callable[[Service], Callable[[], object]]] = {
    "POST /servers": _boot,
    "POST /servers, in a group": _boot_in_group,
    "GET /allocation_candidates": _candidates,
    "cluster scale-out, with its work": _scale_out,
    "rebalance, with its work": _rebalance,
}


def files_of(scenario: str) -> list[str]:
    """Return the source files of Covey that take part in one of the scenarios."""
    with tempfile.TemporaryDirectory() as directory:
        run, trace = _SCENARIOS[scenario](Service(Path(directory))), Trace()
        with trace.on():
            run()
    return trace.of_covey()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trace", description=__doc__)
    parser.add_argument("--files", action="store_true", help="also list the files")
    listed = parser.parse_args().files
    for name in _SCENARIOS:
        files = files_of(name)
        sys.stdout.write(f"{len(files):4}  {name}\n")
        if listed:
            sys.stdout.writelines(f"        {file}\n" for file in files)


if __name__ == "__main__":
    main()

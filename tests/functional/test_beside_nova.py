"""What a Nova cloud on Covey's Placement API meets."""

from uuid import uuid4

import pytest
from structlog.testing import CapturingLogger

from covey import clock_and_ids
from covey.api import middleware
from covey.fleet_file.parse import parse
from covey.model.errors import Conflict
from covey.model.inventory import ResourceClass
from covey.services.fleets import Fleets
from covey.services.overview import get_overview
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.test_allocation_candidates import placement_client

FILE = "hosts:\n- {name: compute-1, vcpus: 8, memory_mb: 16384, disk_gb: 100}\n"


@pytest.fixture
def ledger(build_cloud: BuildCloud) -> Cloud:
    """A service without hosts, in which Nova registered a provider."""
    cloud = build_cloud(0)
    assert placement_client(cloud).post("/resource_providers", {"name": "compute-1"}).status == 200
    return cloud


def test_status_of_a_service_for_placement_alone_has_no_warnings(ledger: Cloud) -> None:
    assert get_overview(ledger.store, "nova").warnings == ()


def test_dry_run_reports_a_host_whose_provider_exists(ledger: Cloud) -> None:
    ratios = dict.fromkeys(ResourceClass, 1.0)
    fleets = Fleets(ledger.store, clock_and_ids.now, clock_and_ids.new_uuid, ratios)
    file = parse(FILE, "fleet.yaml")
    message = "Resource providers have the names of hosts of the file: compute-1."
    with pytest.raises(Conflict, match=message):
        fleets.compare(file)
    with pytest.raises(Conflict, match=message):
        fleets.apply(file, lambda _: None)


def test_callers_request_id_is_logged(ledger: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, log = f"req-{uuid4()}", CapturingLogger()
    monkeypatch.setattr(middleware, "log", log)
    for value in (sent, "req-1"):
        ledger.admin.sending(X_OpenStack_Request_ID=value).get("/os-aggregates")
    assert [call.kwargs.get("global_request_id") for call in log.calls] == [sent, None]


def test_malformed_request_has_placements_sentence(ledger: Cloud) -> None:
    (error,) = placement_client(ledger).post("/resource_providers", {"nonsense": 1}).json["errors"]
    first = "The server could not comply with the request since it is either malformed or otherwise incorrect."
    assert error["detail"].startswith(f"{first}\n\n")

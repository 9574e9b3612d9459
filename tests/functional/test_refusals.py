"""Refused servers are stored after the claims of their batch, in a transaction of their own."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from covey.model.claims import ResolvedRequest
from covey.model.errors import Unavailable
from covey.model.ids import ServerId
from covey.model.servers import Server
from covey.services.server_creation import ServerCreation
from tests.functional.fleets import Cloud


@pytest.fixture
def batch(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> tuple[ServerCreation, list[ResolvedRequest]]:
    """A request that fits and one that does not, as the API resolves them."""
    seen: list[tuple[ServerCreation, ResolvedRequest]] = []
    create = ServerCreation.create

    def recorded(creation: ServerCreation, request: ResolvedRequest) -> list[Server]:
        seen.append((creation, request))
        return create(creation, request)

    monkeypatch.setattr(ServerCreation, "create", recorded)
    for flavor in ("small", "giant"):
        cloud.boot(flavorRef=flavor)
    # The first boot reads its flavor and image again.
    last = {resolved.request.flavor_ref: resolved for _, resolved in seen}
    return seen[0][0], [
        replace(resolved, request=replace(resolved.request, first_id=ServerId(str(uuid4()))))
        for resolved in last.values()
    ]


def test_batch_places_what_fits_and_stores_the_rest_in_error(
    cloud: Cloud, batch: tuple[ServerCreation, list[ResolvedRequest]]
) -> None:
    creation, requests = batch
    placed, refused = creation._create(requests)
    assert not isinstance(placed, BaseException)
    assert not isinstance(refused, BaseException)
    assert placed[0].host_id is not None
    assert cloud.show(refused[0].id)["fault"]["message"] == "No valid host was found. Of 3 hosts: 3 lack VCPUs."
    cloud.check()


def test_refusal_that_cannot_be_stored_fails_no_other_request_of_its_batch(
    cloud: Cloud, batch: tuple[ServerCreation, list[ResolvedRequest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    creation, requests = batch

    def lost(*_: Any) -> None:
        raise Unavailable("The database does not answer.")

    monkeypatch.setattr(ServerCreation, "_store_refused", lost)
    placed, refused = creation._create(requests)
    assert isinstance(refused, Unavailable)
    assert not isinstance(placed, BaseException)
    assert cloud.show(placed[0].id)["status"] == "BUILD"
    cloud.check()

"""`/resource_providers/{uuid}/aggregates`: the aggregates of a provider."""

from collections.abc import Sequence
from dataclasses import dataclass

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import AGGREGATE_GENERATION, AGGREGATES
from covey.api.placement.responses import read, set_last_modified
from covey.api.requests import Json, Request
from covey.api.versions import only_from
from covey.model.providers import Provider
from covey.ports import Clock
from covey.services.placement.aggregates import ProviderAggregates


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The aggregates of a provider."""

    aggregates: ProviderAggregates
    clock: Clock

    @only_from(AGGREGATES)
    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        self._respond(req, resp, *self.aggregates.all(req.actor, key))

    @only_from(AGGREGATES)
    def on_put(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Replace the aggregates; before 1.19 the body is a bare list."""
        self.aggregates.require_replace(req.actor, key)
        body = read(req, schemas.PROVIDER_AGGREGATES.at(req.version))
        uuids, generation = body, None
        if req.version >= AGGREGATE_GENERATION:
            uuids, generation = body["aggregates"], body["resource_provider_generation"]
        provider = self.aggregates.replace(req.actor, key, generation, uuids)
        self._respond(req, resp, provider, uuids)

    def _respond(self, req: Request, resp: falcon.Response, provider: Provider, uuids: Sequence[str]) -> None:
        document: Json = {"aggregates": list(uuids)}
        if req.version >= AGGREGATE_GENERATION:
            document["resource_provider_generation"] = provider.generation
        resp.media = document
        set_last_modified(req, resp, self.clock())

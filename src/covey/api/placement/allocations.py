"""`/allocations`, and `/resource_providers/{uuid}/allocations`: the resources that consumers hold."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPES, MANY_CONSUMERS, OWNERS
from covey.api.placement.responses import no_content, read, set_last_modified
from covey.api.requests import Json, Request
from covey.api.validation import is_uuid
from covey.api.versions import Version, only_from
from covey.model.allocations import INCOMPLETE_OWNER, AllocationRequest, ConsumerAllocations
from covey.model.errors import Invalid
from covey.ports import Clock
from covey.services.placement.allocations import Allocations as Service
from covey.services.placement.usages import UNKNOWN


@dataclass(frozen=True, slots=True)
class Allocations:
    """Allocations of consumers and against providers."""

    allocations: Service
    clock: Clock

    @only_from(MANY_CONSUMERS)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Replace the allocations of several consumers, atomically."""
        self.allocations.require_replace_many(req.actor)
        body = read(req, schemas.MANY_ALLOCATIONS.at(req.version))
        self.allocations.replace_many(req.actor, parse_many(body, req.version))
        no_content(resp)

    def on_get_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        """Show a consumer's allocations, which may be empty."""
        holding = self.allocations.of_consumer(req.actor, consumer)
        resp.media = show(holding, req.version)
        set_last_modified(req, resp, _newest([holding] if holding else [], self.clock))

    def on_put_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        """Replace a consumer's allocations."""
        self.allocations.require_replace(req.actor)
        if not is_uuid(consumer):
            raise Invalid(f"Malformed consumer_uuid: {consumer}")
        body = read(req, schemas.ALLOCATIONS.at(req.version))
        self.allocations.replace(req.actor, parse(str(uuid.UUID(consumer)), body, req.version))
        no_content(resp)

    def on_delete_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        self.allocations.delete(req.actor, consumer)
        no_content(resp)

    def on_get_provider(self, req: Request, resp: falcon.Response, key: str) -> None:
        """List the allocations against a provider."""
        provider, holdings = self.allocations.of_provider(req.actor, key)
        resp.media = {
            "resource_provider_generation": provider.generation,
            "allocations": {
                holding.consumer.uuid: _on_provider(holding, provider.uuid, req.version) for holding in holdings
            },
        }
        set_last_modified(req, resp, _newest(holdings, self.clock))


def parse_many(body: Mapping[str, Any], version: Version) -> list[AllocationRequest]:
    """Return the requested allocations of several consumers."""
    return [parse(consumer, entry, version) for consumer, entry in body.items()]


def parse(consumer: str, body: Mapping[str, Any], version: Version) -> AllocationRequest:
    """Return the requested allocations of a consumer, from the body of a version."""
    allocations = body["allocations"]
    if version < BY_PROVIDER:
        allocations = {entry["resource_provider"]["uuid"]: entry for entry in allocations}
    return AllocationRequest(
        consumer,
        {provider: entry["resources"] for provider, entry in allocations.items()},
        body["project_id"] if version >= OWNERS else INCOMPLETE_OWNER,
        body["user_id"] if version >= OWNERS else INCOMPLETE_OWNER,
        body.get("consumer_type"),
        version >= CONSUMER_GENERATION,
        body.get("consumer_generation"),
    )


def show(holding: ConsumerAllocations | None, version: Version) -> Json:
    """Return a consumer's allocations in the form of the version."""
    if holding is None:
        return {"allocations": {}}
    consumer = holding.consumer
    document: Json = {
        "allocations": {
            provider: {"generation": holding.generations[provider], "resources": resources}
            for provider, resources in holding.resources.items()
        }
    }
    if version >= BY_PROVIDER:
        document |= {"project_id": consumer.project_id, "user_id": consumer.user_id}
    if version >= CONSUMER_GENERATION:
        document["consumer_generation"] = consumer.generation
    if version >= CONSUMER_TYPES:
        document["consumer_type"] = consumer.kind or UNKNOWN
    return document


def _on_provider(holding: ConsumerAllocations, provider: str, version: Version) -> Json:
    document: Json = {"resources": holding.resources[provider]}
    if version >= CONSUMER_GENERATION:
        document["consumer_generation"] = holding.consumer.generation
    return document


def _newest(holdings: Iterable[ConsumerAllocations], clock: Clock) -> datetime:
    """Return when the newest was written, or the current time if one has no time."""
    moments = [holding.consumer.updated_at for holding in holdings]
    return max((moment for moment in moments if moment), default=clock()) if all(moments) else clock()

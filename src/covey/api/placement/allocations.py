"""`/allocations`, and `/resource_providers/{uuid}/allocations`: who holds how much of which provider."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import falcon

from covey.api.placement import schemas
from covey.api.placement.answers import no_content, read, stamp
from covey.api.placement.microversions import BY_PROVIDER, CONSUMER_GENERATION, CONSUMER_TYPES, MANY_CONSUMERS, OWNERS
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
    """The resource."""

    allocations: Service
    clock: Clock

    @only_from(MANY_CONSUMERS)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Many consumers, all or none."""
        body = read(req, schemas.MANY_ALLOCATIONS.at(req.version))
        self.allocations.replace_many(req.actor, parse_many(body, req.version))
        no_content(resp)

    def on_get_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        """What a consumer holds, which may be nothing."""
        holding = self.allocations.of_consumer(req.actor, consumer)
        resp.media = show(holding, req.version)
        stamp(req, resp, _newest([holding] if holding else [], self.clock))

    def on_put_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        """From now on this, and nothing else."""
        if not is_uuid(consumer):
            raise Invalid(f"Malformed consumer_uuid: {consumer}")
        body = read(req, schemas.ALLOCATIONS.at(req.version))
        self.allocations.replace(req.actor, parse(str(uuid.UUID(consumer)), body, req.version))
        no_content(resp)

    def on_delete_one(self, req: Request, resp: falcon.Response, consumer: str) -> None:
        self.allocations.delete(req.actor, consumer)
        no_content(resp)

    def on_get_provider(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Everybody who holds something of a provider."""
        provider, holdings = self.allocations.of_provider(req.actor, key)
        resp.media = {
            "resource_provider_generation": provider.generation,
            "allocations": {each.consumer.uuid: _on_provider(each, provider.uuid, req.version) for each in holdings},
        }
        stamp(req, resp, _newest(holdings, self.clock))


def parse_many(body: Mapping[str, Any], version: Version) -> list[AllocationRequest]:
    """What many consumers are to hold."""
    return [parse(consumer, entry, version) for consumer, entry in body.items()]


def parse(consumer: str, body: Mapping[str, Any], version: Version) -> AllocationRequest:
    """What a consumer is to hold, as a version says it."""
    given = body["allocations"]
    if version < BY_PROVIDER:
        given = {entry["resource_provider"]["uuid"]: entry for entry in given}
    return AllocationRequest(
        consumer,
        {provider: entry["resources"] for provider, entry in given.items()},
        body["project_id"] if version >= OWNERS else INCOMPLETE_OWNER,
        body["user_id"] if version >= OWNERS else INCOMPLETE_OWNER,
        body.get("consumer_type"),
        version >= CONSUMER_GENERATION,
        body.get("consumer_generation"),
    )


def show(holding: ConsumerAllocations | None, version: Version) -> Json:
    """What a consumer holds, as a version knows it."""
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
    """When the newest was written; now, if that is not known of all."""
    moments = [holding.consumer.updated_at for holding in holdings]
    return max((moment for moment in moments if moment), default=clock()) if all(moments) else clock()

"""`/resource_providers`: providers of resources, and their trees."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import falcon

from covey.api.placement import schemas
from covey.api.placement.candidate_queries import read_filters
from covey.api.placement.microversions import (
    AGGREGATES,
    ALLOCATIONS_LINK,
    FIRST,
    MOVES,
    PROVIDER_RETURNED,
    TRAITS,
    TREES,
)
from covey.api.placement.responses import href, no_content, read, set_last_modified
from covey.api.requests import Json, Request, query_lists
from covey.model.providers import Provider, ProviderFilter
from covey.ports import Clock
from covey.services.placement.providers import NewProvider, ProviderChange, Providers

PATH = "/resource_providers"
_LINKS = {
    FIRST: ("inventories", "usages"),
    AGGREGATES: ("aggregates",),
    TRAITS: ("traits",),
    ALLOCATIONS_LINK: ("allocations",),
}


@dataclass(frozen=True, slots=True)
class ResourceProviders:
    """Resource providers."""

    providers: Providers
    clock: Clock

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the providers that match the query."""
        found = self.providers.find(req.actor, read_filter(req))
        resp.media = {"resource_providers": [show(req, provider) for provider in found]}
        set_last_modified(req, resp, _newest(found, self.clock))

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a provider."""
        self.providers.require_create(req.actor)
        body = read(req, schemas.NEW_PROVIDER.at(req.version))
        new_uuid = body.get("uuid")
        parent = body.get("parent_provider_uuid")
        new = NewProvider(body["name"], str(uuid.UUID(new_uuid)) if new_uuid else None, parent)
        provider = self.providers.create(req.actor, new)
        resp.location = req.link(f"{PATH}/{provider.uuid}")
        if req.version < PROVIDER_RETURNED:
            resp.status = falcon.HTTP_201
        else:
            self._respond(req, resp, provider)

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self._respond(req, resp, self.providers.show(req.actor, key))

    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Change the name, and from 1.14 on the parent."""
        self.providers.require_change(req.actor)
        body = read(req, schemas.PROVIDER.at(req.version))
        change = ProviderChange(
            body["name"], "parent_provider_uuid" in body, body.get("parent_provider_uuid"), req.version >= MOVES
        )
        self._respond(req, resp, self.providers.change(req.actor, key, change))

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.providers.delete(req.actor, key)
        no_content(resp)

    def _respond(self, req: Request, resp: falcon.Response, provider: Provider) -> None:
        resp.media = show(req, provider)
        set_last_modified(req, resp, provider.updated_at)


def read_filter(req: Request) -> ProviderFilter:
    """Return the filters of the query. Raises Invalid."""
    query = query_lists(req)
    schemas.PROVIDERS_QUERY.at(req.version).check(query)
    filters = read_filters(query, req.version)
    return ProviderFilter(
        name=query["name"][-1] if "name" in query else None,
        uuid=query["uuid"][-1] if "uuid" in query else None,
        in_tree=filters.in_tree,
        resources=filters.resources,
        required=filters.required,
        forbidden=filters.forbidden,
        member_of=filters.member_of,
        not_member_of=filters.not_member_of,
    )


def show(req: Request, provider: Provider) -> Json:
    """Return a provider in the form of the version."""
    path = href(req, f"{PATH}/{provider.uuid}")
    rels = [rel for since, added in _LINKS.items() if req.version >= since for rel in added]
    document: Json = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": [{"rel": "self", "href": path}, *({"rel": rel, "href": f"{path}/{rel}"} for rel in rels)],
    }
    if req.version >= TREES:
        document |= {"parent_provider_uuid": provider.parent_uuid, "root_provider_uuid": provider.root_uuid}
    return document


def _newest(providers: Sequence[Provider], clock: Clock) -> datetime:
    return max((provider.updated_at for provider in providers), default=clock())

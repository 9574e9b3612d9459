"""`/traits`, and `/resource_providers/{uuid}/traits`: qualities of providers."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import TRAITS
from covey.api.placement.responses import no_content, read, set_last_modified
from covey.api.requests import Request, query_lists
from covey.api.versions import only_from
from covey.model.errors import Invalid
from covey.model.providers import Provider
from covey.ports import Clock
from covey.services.placement.traits import TraitFilter
from covey.services.placement.traits import Traits as Service


@dataclass(frozen=True, slots=True)
class Traits:
    """Standard and custom traits."""

    traits: Service
    clock: Clock

    @only_from(TRAITS)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"traits": self.traits.find(req.actor, read_filter(req))}
        set_last_modified(req, resp, self.clock())

    @only_from(TRAITS)
    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        """Respond 204 for an existing trait."""
        made_at = self.traits.show(req.actor, name)
        no_content(resp)
        set_last_modified(req, resp, made_at or self.clock())

    @only_from(TRAITS)
    def on_put_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        """Create a trait: 201 for a new one, 204 for an existing one."""
        resp.status = falcon.HTTP_201 if self.traits.ensure(req.actor, name) else falcon.HTTP_204
        resp.location = req.link(f"/traits/{name}")
        set_last_modified(req, resp, self.clock())

    @only_from(TRAITS)
    def on_delete_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        self.traits.delete(req.actor, name)
        no_content(resp)


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """The traits of a provider."""

    traits: Service
    clock: Clock

    @only_from(TRAITS)
    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        self._respond(req, resp, *self.traits.of_provider(req.actor, key))

    @only_from(TRAITS)
    def on_put(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Replace the traits."""
        self.traits.require_replace(req.actor)
        body = read(req, schemas.PROVIDER_TRAITS)
        names = set(body["traits"])
        provider = self.traits.replace(req.actor, key, body["resource_provider_generation"], names)
        self._respond(req, resp, provider, names)

    @only_from(TRAITS)
    def on_delete(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.traits.clear(req.actor, key)
        no_content(resp)

    def _respond(self, req: Request, resp: falcon.Response, provider: Provider, names: Iterable[str]) -> None:
        resp.media = {"traits": sorted(names), "resource_provider_generation": provider.generation}
        set_last_modified(req, resp, self.clock())


def read_filter(req: Request) -> TraitFilter:
    """Return the filters of the query. Raises Invalid."""
    query = query_lists(req)
    schemas.TRAITS_QUERY.check(query)
    names, prefix = _names(query["name"][-1]) if "name" in query else (None, "")
    return TraitFilter(names, prefix, _associated(query["associated"][-1]) if "associated" in query else None)


def _names(text: str) -> tuple[frozenset[str] | None, str]:
    kind, _, value = text.partition(":")
    match kind:
        case "in" if text != kind:
            return frozenset(value.split(",")), ""
        case "startswith" if text != kind:
            return None, value
    raise Invalid(
        "Badly formatted name parameter. Expected name query string parameter in form: "
        f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{text}"'
    )


def _associated(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise Invalid('The query parameter "associated" only accepts "true" or "false"')
    return text.lower() == "true"

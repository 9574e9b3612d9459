"""`/usages`, and `/resource_providers/{uuid}/usages`: the sums of allocations."""

from dataclasses import dataclass

import falcon

from covey.api.placement import schemas
from covey.api.placement.microversions import CONSUMER_TYPES, USAGES
from covey.api.placement.responses import set_last_modified
from covey.api.requests import Request, query_lists
from covey.api.versions import only_from
from covey.ports import Clock
from covey.services.placement.usages import Usages as Service


@dataclass(frozen=True, slots=True)
class Usages:
    """Usages of projects and of providers."""

    usages: Service
    clock: Clock

    @only_from(USAGES)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show a project's usages, from 1.38 on by consumer type."""
        parameters = query_lists(req)
        query = {name: values[-1] for name, values in parameters.items()}
        self.usages.require_show(req.actor, query.get("project_id"))
        schemas.USAGES_QUERY.at(req.version).check(parameters)
        project, user = query["project_id"], query.get("user_id")
        if req.version < CONSUMER_TYPES:
            resp.media = {"usages": self.usages.of_project(req.actor, project, user).amounts}
        else:
            found = self.usages.by_kind(req.actor, project, user, query.get("consumer_type"))
            resp.media = {
                "usages": {kind: {**usage.amounts, "consumer_count": usage.count} for kind, usage in found.items()}
            }
        set_last_modified(req, resp, self.clock())

    def on_get_provider(self, req: Request, resp: falcon.Response, key: str) -> None:
        provider, used = self.usages.of_provider(req.actor, key)
        resp.media = {"resource_provider_generation": provider.generation, "usages": used}
        set_last_modified(req, resp, self.clock())

"""`POST /reshaper`: change inventories and allocations in one transaction."""

from dataclasses import dataclass

import falcon

from covey.api.placement import schemas
from covey.api.placement.allocations import parse_many
from covey.api.placement.inventories import parse
from covey.api.placement.microversions import RESHAPER
from covey.api.placement.responses import no_content, read
from covey.api.requests import Request
from covey.api.versions import only_from
from covey.services.placement.reshaper import NewInventories
from covey.services.placement.reshaper import Reshaper as Service


@dataclass(frozen=True, slots=True)
class Reshaper:
    """The reshaper."""

    reshaper: Service

    @only_from(RESHAPER)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        self.reshaper.require_reshape(req.actor)
        body = read(req, schemas.RESHAPE.at(req.version))
        stocks = {
            provider: NewInventories(
                entry["resource_provider_generation"],
                {kind: parse(inventory) for kind, inventory in entry["inventories"].items()},
            )
            for provider, entry in body["inventories"].items()
        }
        self.reshaper.reshape(req.actor, stocks, parse_many(body["allocations"], req.version))
        no_content(resp)

"""/extensions: the API extensions that older clients look up."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.requests import Json, Request, read_query
from covey.model.errors import NotFound
from covey.ports import Access

_EXTENSIONS = {
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-extended-quotas": "ExtendedQuotas",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-hypervisors": "Hypervisors",
    "os-keypairs": "Keypairs",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-services": "Services",
    "os-used-limits": "UsedLimits",
}


@dataclass(frozen=True, slots=True)
class Extensions:
    """The list of extensions, and one of them."""

    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        self.access.require(req.actor, "os_compute_api:extensions")
        resp.media = {"extensions": [_extension(alias) for alias in _EXTENSIONS]}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        self.access.require(req.actor, "os_compute_api:extensions")
        if key not in _EXTENSIONS:
            raise NotFound(f"No extension with the alias {key}.")
        resp.media = {"extension": _extension(key)}


def _extension(alias: str) -> Json:
    return {
        "alias": alias,
        "name": _EXTENSIONS[alias],
        "description": _EXTENSIONS[alias],
        "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    }

"""/os-keypairs: always empty, since Covey stores no key pairs."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.requests import Request, read_query
from covey.model.access import Target
from covey.ports import Access


@dataclass(frozen=True, slots=True)
class KeyPairs:
    """The key pairs of a user. Guests use key pairs; placement does not."""

    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        user = read_query(req, schemas.KEYPAIR_LIST).get("user_id", req.actor.user_id)
        self.access.require(req.actor, "os_compute_api:os-keypairs:index", Target(user_id=user))
        resp.media = {"keypairs": []}

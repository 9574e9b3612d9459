"""/os-keypairs: the key pairs of a user."""

from dataclasses import dataclass
from urllib.parse import urlencode

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.compute.identifiers import page_size
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.times import microseconds
from covey.model.ids import UserId
from covey.model.keypairs import KeyPair, KeyType
from covey.services.keypairs import KeyPairs as Service


@dataclass(frozen=True, slots=True)
class KeyPairs:
    """The key pairs of a user: the caller, or from 2.10 on a user that an administrator names."""

    service: Service
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = read_query(req, schemas.KEYPAIR_LIST)
        user = _user(req, query.get("user_id"))
        if req.version < mv.KEYPAIR_PAGING:
            found = self.service.find(req.actor, user, None, None)
            resp.media = {"keypairs": [{"keypair": _short(pair, req)} for pair in found]}
            return
        limit = page_size(query, self.max_limit)
        found = self.service.find(req.actor, user, query.get("marker"), limit + 1)
        page = found[:limit]
        resp.media = {"keypairs": [{"keypair": _short(pair, req)} for pair in page]}
        if page and len(found) > limit:
            href = req.link(f"{req.path}?{urlencode({**query, 'marker': page[-1].name})}")
            resp.media["keypairs_links"] = [{"rel": "next", "href": href}]

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, schemas.KEYPAIR_CREATE.at(req.version))["keypair"]
        kind = KeyType(body.get("type", KeyType.SSH))
        user = _user(req, body.get("user_id"))
        pair, private_key = self.service.create(req.actor, user, body["name"], kind, body.get("public_key"))
        shown = _short(pair, req) | {"user_id": pair.user_id}
        resp.media = {"keypair": shown if private_key is None else shown | {"private_key": private_key}}
        resp.status = falcon.HTTP_201 if req.version >= mv.KEYPAIR_TYPE else falcon.HTTP_200

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = read_query(req, schemas.KEYPAIR_QUERY)
        pair = self.service.get(req.actor, _user(req, query.get("user_id")), key)
        resp.media = {"keypair": _full(pair, req)}

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = read_query(req, schemas.KEYPAIR_QUERY)
        self.service.delete(req.actor, _user(req, query.get("user_id")), key)
        resp.status = falcon.HTTP_204 if req.version >= mv.KEYPAIR_TYPE else falcon.HTTP_202


def _user(req: Request, named: str | None) -> UserId:
    """Return the owner of the key pairs of a request. Older versions ignore a named one."""
    return UserId(named) if named and req.version >= mv.KEYPAIR_USER else req.actor.user_id


def _short(pair: KeyPair, req: Request) -> Json:
    doc: Json = {"name": pair.name, "public_key": pair.public_key, "fingerprint": pair.fingerprint}
    return doc | {"type": pair.type} if req.version >= mv.KEYPAIR_TYPE else doc


def _full(pair: KeyPair, req: Request) -> Json:
    return _short(pair, req) | {
        "id": pair.id,
        "user_id": pair.user_id,
        "created_at": microseconds(pair.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }

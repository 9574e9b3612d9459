"""/os-server-groups/{id}/action: membership, previews and audits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import single_action
from covey.api.compute.microversions import COVEY
from covey.api.compute.nova_groups import asking_nova, token_of
from covey.api.compute.server_group_views import show, show_audit, show_headroom, show_preview
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import JsonSchema, Query, Schema, is_true
from covey.api.versions import only_from
from covey.model.errors import Invalid
from covey.model.quotas import QuotaUse
from covey.services.audits import Audits
from covey.services.group_evacuations import GroupEvacuations
from covey.services.memberships import Memberships
from covey.services.nova_groups import NovaGroups
from covey.services.previews import MAX_COUNT, PreviewRequest, Previews

_INSTANCE: JsonSchema = {"type": "string", "format": "uuid"}
_IMAGE: JsonSchema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
_ZONE: JsonSchema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
_KIND = {"flavor": schemas.SHORT, "image": _IMAGE, "availability_zone": _ZONE}
_ADD = schemas.fields({"instance_id": _INSTANCE, "enforce": schemas.BOOLEAN}, "instance_id")
_REMOVE = schemas.fields({"instance_id": _INSTANCE}, "instance_id")
_PREVIEW = schemas.fields({**_KIND, "count": {**schemas.POSITIVE, "maximum": MAX_COUNT}}, "flavor")
_HEADROOM = schemas.fields(_KIND, "flavor")
ACTIONS = {
    "add_instance": _ADD,
    "remove_instance": _REMOVE,
    "preview": _PREVIEW,
    "headroom": _HEADROOM,
    "evacuate": schemas.fields({}),
}
VIOLATIONS = Query({"violations": schemas.BOOLEAN}, COVEY)

Handler = Callable[[Request, falcon.Response, str, Json], None]


@dataclass(frozen=True, slots=True)
class ServerGroupActions:
    """Actions of a server group, and its audit. `more` are further actions, each with its schema."""

    memberships: Memberships
    previews: Previews
    audits: Audits
    evacuations: GroupEvacuations
    nova: NovaGroups
    more: Mapping[str, tuple[JsonSchema, Handler]]
    _verbs: dict[str, tuple[Schema, Handler]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        own: dict[str, Handler] = {
            "add_instance": self._add,
            "remove_instance": self._remove,
            "preview": self._preview,
            "headroom": self._headroom,
            "evacuate": self._evacuate,
        }
        verbs: dict[str, tuple[JsonSchema, Handler]] = {
            **{verb: (ACTIONS[verb], do) for verb, do in own.items()},
            **self.more,
        }
        self._verbs.update({verb: (schemas.action(verb, schema), do) for verb, (schema, do) in verbs.items()})

    @only_from(COVEY)
    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, _ANYTHING)
        verb = single_action(body) if body else ""
        if verb not in self._verbs:
            raise Invalid(f"Unknown action {verb!r}. Send exactly one of {', '.join(self._verbs)}.")
        schema, handle = self._verbs[verb]
        schema.check(body)
        asking_nova(self.nova, req, key, lambda: handle(req, resp, key, body[verb]))

    @only_from(COVEY)
    def on_get_audit(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = read_query(req, VIOLATIONS)
        audit = asking_nova(self.nova, req, key, lambda: self.audits.audit(req.actor, key))
        resp.media = show_audit(audit, violations=is_true(query.get("violations", "false")))

    def _add(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        enforce = is_true(body.get("enforce", False))
        group = self.memberships.add(req.actor, key, body["instance_id"], enforce=enforce)
        resp.media = {"server_group": show(group, req.version)}

    def _remove(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        group = self.memberships.remove(req.actor, key, body["instance_id"])
        resp.media = {"server_group": show(group, req.version)}

    def _preview(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        more = PreviewRequest(
            body["flavor"], int(body.get("count", 1)), body.get("image"), body.get("availability_zone")
        )
        resp.media = show_preview(self.previews.preview(req.actor, key, more, self._quota_in_nova(req)))

    def _headroom(self, req: Request, resp: falcon.Response, key: str, body: Json) -> None:
        more = PreviewRequest(body["flavor"], MAX_COUNT, body.get("image"), body.get("availability_zone"))
        resp.media = show_headroom(self.previews.preview(req.actor, key, more, self._quota_in_nova(req)))

    def _quota_in_nova(self, req: Request) -> Callable[[], QuotaUse]:
        return lambda: self.nova.quota(req.actor, token_of(req))

    def _evacuate(self, req: Request, resp: falcon.Response, key: str, _: Json) -> None:
        outcomes = self.evacuations.evacuate(req.actor, key, req.context.request_id)
        resp.status = falcon.HTTP_202
        resp.media = {
            "evacuations": [
                {"instance_id": server, "accepted": reason is None, "reason": reason} for server, reason in outcomes
            ]
        }


_ANYTHING = Schema({"type": "object"})

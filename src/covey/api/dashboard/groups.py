"""/data/groups: server groups with their policies in words, one group in detail, and policy previews."""

from dataclasses import dataclass

import falcon

from covey.api.compute import rebalances
from covey.api.compute.server_group_views import show_violation
from covey.api.dashboard.responses import as_json, number, send
from covey.api.requests import Json, Request, read_body
from covey.api.validation import JsonSchema, Schema
from covey.model.groups import Group
from covey.scheduler.policies import describe
from covey.services.dashboard.groups import DashboardGroups, GroupDetails, GroupRow

_POLICIES: JsonSchema = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 600}, "maxItems": 32}
_RULES: JsonSchema = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}}
_PREVIEW = Schema(
    {
        "type": "object",
        "properties": {"policies": _POLICIES, "rules": _RULES},
        "required": ["policies"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class Groups:
    """The server groups of the caller's project; for operators, those of all projects."""

    pages: DashboardGroups
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        limit = number(req, "limit", self.max_limit, self.max_limit)
        rows = self.pages.find(req.actor, number(req, "offset", 0, 2**31 - 1), limit + 1)
        shown = [_show_row(row) for row in rows[:limit]]
        send(req, resp, as_json({"groups": shown, "more": len(rows) > limit}))

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        send(req, resp, as_json(_show_page(self.pages.get(req.actor, key))))

    def on_post_preview(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, _PREVIEW)
        preview = self.pages.preview(req.actor, key, body["policies"], body.get("rules", {}))
        resp.media = _show(preview.group) | {
            "violations": [show_violation(violation, preview.obfuscation) for violation in preview.violations]
        }


def _show(group: Group) -> Json:
    return {
        "id": group.id,
        "policies": [str(policy) for policy in group.policies],
        "rules": group.rules,
        "words": describe(group.policies),
    }


def _show_row(row: GroupRow) -> Json:
    violations, hard = row.violations
    return _show(row.group) | {
        "name": row.group.name,
        "project_id": row.group.project_id,
        "members": row.members,
        "violations": violations,
        "hard_violations": hard,
    }


def _show_page(page: GroupDetails) -> Json:
    group = page.group
    return _show(group) | {
        "name": group.name,
        "project_id": group.project_id,
        "user_id": group.user_id,
        "members": [
            {
                "id": member.id,
                "name": member.name or member.id,
                "status": member.status or "UNKNOWN",
                "places": places,
            }
            for member, places in page.members
        ],
        "violations": [show_violation(violation, page.obfuscation) for violation in page.violations],
        "domain_names": page.domain_names,
        "rebalance": None if page.rebalance is None else rebalances.show(page.rebalance, page.obfuscation),
    }

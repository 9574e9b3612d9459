"""/clusters/{cluster}/policies: which policies a cluster heeds. Actions change that."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.clustering.queries import ListQuery, flag, texts
from covey.api.requests import Json, Request
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.specs import Binding
from covey.services.clustering.bindings import BindingFilter
from covey.services.clustering.bindings import Bindings as Service

LIST = ListQuery(
    {"enabled": flag, "policy_name": texts, "policy_type": texts}, ("enabled",), others=frozenset({"sort"})
)


@dataclass(frozen=True, slots=True)
class Bindings:
    """Those of a cluster, and one of them by its policy."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        wanted = LIST.read(req)
        found = self.service.find(req.actor, key, _filter(wanted))
        for field, descending in wanted.sort:
            if field == "enabled":
                found = sorted(found, key=lambda binding: binding.enabled, reverse=descending)
        resp.media = {"cluster_policies": [show(binding) for binding in found]}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str, policy: str) -> None:
        resp.media = {"cluster_policy": show(self.service.get(req.actor, key, policy))}


def show(binding: Binding) -> Json:
    """A policy at work."""
    return {
        "id": binding.id,
        "cluster_id": binding.cluster_id,
        "cluster_name": binding.cluster_name,
        "policy_id": binding.policy.id,
        "policy_name": binding.policy.name,
        "policy_type": binding.policy.type,
        "enabled": binding.enabled,
        "priority": binding.priority,
        "data": binding.data,
        "last_op": views.time_of(binding.last_op),
    }


def _filter(wanted: PageQuery) -> BindingFilter:
    filters = wanted.filters
    return BindingFilter(
        enabled=bool(filters["enabled"][0]) if "enabled" in filters else None,
        names=frozenset(map(str, filters["policy_name"])) if "policy_name" in filters else None,
        types=frozenset(map(str, filters["policy_type"])) if "policy_type" in filters else None,
    )

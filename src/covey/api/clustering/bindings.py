"""/v1/clusters/{cluster}/policies: the bindings of a cluster."""

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
    """The bindings of a cluster, and one by its policy."""

    service: Service

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = LIST.read(req)
        bindings = self.service.find(req.actor, key, _filter(query))
        for field, descending in query.sort:
            if field == "enabled":
                bindings = sorted(bindings, key=lambda binding: binding.enabled, reverse=descending)
        resp.media = {"cluster_policies": [show(binding) for binding in bindings]}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str, policy: str) -> None:
        resp.media = {"cluster_policy": show(self.service.get(req.actor, key, policy))}


def show(binding: Binding) -> Json:
    """Return a binding as JSON."""
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


def _filter(query: PageQuery) -> BindingFilter:
    filters = query.filters
    return BindingFilter(
        enabled=bool(filters["enabled"][0]) if "enabled" in filters else None,
        names=frozenset(map(str, filters["policy_name"])) if "policy_name" in filters else None,
        types=frozenset(map(str, filters["policy_type"])) if "policy_type" in filters else None,
    )

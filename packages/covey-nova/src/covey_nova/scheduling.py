"""CoveyFilter and CoveyWeigher.

The filter asks Covey once for each instance that is in a server group, with all hosts that are left. The request lists
the members, so that Covey's ledger refuses an allocation that would violate a hard policy. nova-scheduler then takes
its next host, so two schedulers cannot both get the last place.

Nova filters once for a whole multi-create, so the filter returns every host that the policies admit. The weigher
orders them.
"""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nova.scheduler import filters, utils, weights
from nova.scheduler.host_manager import HostState
from oslo_log import log as logging

from covey_nova import options
from covey_nova.client import Client, Unavailable

if TYPE_CHECKING:
    from nova.objects import InstanceGroup, RequestSpec  # registered when a service starts

LOG = logging.getLogger(__name__)

options.register()
CLIENT = Client()
_WEIGHTS = "covey_weights"  # of a request, by the uuid of a compute node
_unanswered = itertools.count(1)


class CoveyFilter(filters.BaseHostFilter):
    """Keeps the hosts that the hard policies of the instance's server group admit."""

    def filter_all(self, hosts: Iterable[HostState], spec: "RequestSpec") -> list[HostState]:
        """Return the admitted hosts; all of them for an instance without a group, and for a rebuild in place."""
        offered = list(hosts)
        group = spec.instance_group
        if group is None or not offered or utils.request_is_rebuild(spec):
            return offered
        try:
            ranking = CLIENT.rank(ranking_request(spec, group, offered), request_id(spec))
        except Unavailable as error:
            return self._without_answer(offered, spec, error)
        setattr(spec, _WEIGHTS, ranking.weights)
        if ranking.refused:
            LOG.info("Covey refuses hosts for instance %s: %s", spec.instance_uuid, ", ".join(ranking.refused))
        return [host for host in offered if host.uuid in ranking.weights]

    def _without_answer(self, offered: list[HostState], spec: "RequestSpec", error: Unavailable) -> list[HostState]:
        setattr(spec, _WEIGHTS, {})
        choice = options.CONF.covey.on_unavailable
        LOG.error(
            "Covey does not answer for instance %s (%s). on_unavailable = %s. Requests without an answer: %d",
            spec.instance_uuid,
            error,
            choice,
            next(_unanswered),
        )
        return offered if choice == "ignore" else []


class CoveyWeigher(weights.BaseHostWeigher):
    """Ranks hosts by the soft policies of the instance's server group, as Covey ranked them for the filter."""

    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, _: HostState) -> float:
        """Return the multiplier of the ranking."""
        multiplier: float = options.CONF.covey.weight_multiplier
        return multiplier

    def _weigh_object(self, host: HostState, spec: "RequestSpec") -> float:
        ranked: dict[str, float] = getattr(spec, _WEIGHTS, {})
        return ranked.get(host.uuid, 0.0)


def ranking_request(spec: "RequestSpec", group: "InstanceGroup", hosts: Iterable[HostState]) -> dict[str, Any]:
    """Return the body of the request to Covey."""
    members = group.members if "members" in group else []
    return {
        "instance_uuid": spec.instance_uuid,
        "group": {
            "uuid": group.uuid,
            "name": group.name,
            "policy": group.policy,
            "rules": group.rules,
            "members": sorted({*members, spec.instance_uuid}),
            "project_id": group.project_id,
            "user_id": group.user_id,
        },
        "hosts": [host.uuid for host in hosts],
    }


def request_id(spec: "RequestSpec") -> str | None:
    """Return the id of the request that Nova serves, so that both logs can be joined."""
    context = getattr(spec, "_context", None)
    found: str | None = getattr(context, "global_id", None)
    return found

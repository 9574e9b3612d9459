"""`GET /allocation_candidates`: the sets of providers that can satisfy a request."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from covey.api.placement.candidate_queries import WHOLE_TREES, read_query
from covey.api.placement.microversions import BY_PROVIDER, CANDIDATES, MAPPINGS
from covey.api.placement.responses import set_last_modified
from covey.api.requests import Json, Request, query_lists
from covey.api.versions import Version, only_from
from covey.ports import Clock
from covey.scheduler.candidates import Candidate, CandidateQuery, CandidateResult, ProviderSummary
from covey.services.placement.candidates import Candidates

TRAITS_SHOWN, ALL_CLASSES = Version(1, 17), Version(1, 27)


@dataclass(frozen=True, slots=True)
class AllocationCandidates:
    """Allocation candidates."""

    candidates: Candidates
    clock: Clock

    @only_from(CANDIDATES)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the candidates, with summaries of their providers."""
        self.candidates.require_list(req.actor)
        query, limit = read_query(query_lists(req), req.version)
        resp.media = show(self.candidates.find(req.actor, query, limit), query, req.version)
        set_last_modified(req, resp, self.clock())


def show(found: CandidateResult, query: CandidateQuery, version: Version) -> Json:
    """Return candidates and summaries in the form of the version."""
    return {
        "allocation_requests": _requests(found.candidates, version),
        "provider_summaries": _summaries(found.summaries, query, version),
    }


def _requests(candidates: Iterable[Candidate], version: Version) -> list[Json]:
    if version < BY_PROVIDER:
        return [{"allocations": _listed(candidate)} for candidate in candidates]
    with_mappings = version >= MAPPINGS
    requests: list[Json] = []
    for allocations, mappings in candidates:
        request: Json = {"allocations": {uuid: {"resources": amounts} for uuid, amounts in allocations.items()}}
        if with_mappings:
            request["mappings"] = mappings
        requests.append(request)
    return requests


def _listed(candidate: Candidate) -> list[Json]:
    return [
        {"resource_provider": {"uuid": uuid}, "resources": amounts} for uuid, amounts in candidate.allocations.items()
    ]


def _summaries(summaries: Iterable[ProviderSummary], query: CandidateQuery, version: Version) -> Json:
    requested = None if version >= ALL_CLASSES else query.amounts
    with_traits, with_family = version >= TRAITS_SHOWN, version >= WHOLE_TREES
    shown: Json = {}
    for summary in summaries:
        document: Json = {
            "resources": {
                name: {"capacity": capacity, "used": used}
                for name, (capacity, used) in summary.resources.items()
                if requested is None or name in requested
            }
        }
        if with_traits:
            document["traits"] = summary.traits
        if with_family:
            document |= {"parent_provider_uuid": summary.parent, "root_provider_uuid": summary.root}
        shown[summary.uuid] = document
    return shown

"""Allocation candidates: from a query and the resource providers in columns to the candidates. Pure."""

from covey.scheduler.candidates.find import find
from covey.scheduler.candidates.queries import CandidateQuery, RequestGroup
from covey.scheduler.candidates.results import Candidate, CandidateResult, ProviderSummary

__all__ = ["Candidate", "CandidateQuery", "CandidateResult", "ProviderSummary", "RequestGroup", "find"]

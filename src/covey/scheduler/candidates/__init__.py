"""Allocation candidates: from a question about resource providers to the ways in which it can be met. Pure."""

from covey.scheduler.candidates.find import find
from covey.scheduler.candidates.found import Candidate, Found, Summary
from covey.scheduler.candidates.masks import suits_alone
from covey.scheduler.candidates.providers import Providers
from covey.scheduler.candidates.queries import Group, Query

__all__ = ["Candidate", "Found", "Group", "Providers", "Query", "Summary", "find", "suits_alone"]

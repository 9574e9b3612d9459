"""Use cases: a module for each noun, a function for each verb."""

from dataclasses import dataclass

from covey.services.aggregates import Aggregates
from covey.services.flavors import Flavors
from covey.services.hosts import Hosts
from covey.services.images import Images
from covey.services.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that can be asked of Covey."""

    aggregates: Aggregates
    flavors: Flavors
    hosts: Hosts
    images: Images
    quotas: Quotas

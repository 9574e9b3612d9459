"""Every access rule with its default check."""

from covey.model.access import AccessRule
from covey.model.access_rules.agents import AGENTS
from covey.model.access_rules.basics import BASICS
from covey.model.access_rules.clustering import CLUSTERING
from covey.model.access_rules.dashboard import DASHBOARD
from covey.model.access_rules.images import IMAGES
from covey.model.access_rules.operators import OPERATORS
from covey.model.access_rules.placement import PLACEMENT
from covey.model.access_rules.servers import SERVERS

RULES: tuple[AccessRule, ...] = (
    *(*BASICS, *OPERATORS, *SERVERS, *IMAGES, *PLACEMENT, *CLUSTERING, *DASHBOARD, *AGENTS),
)

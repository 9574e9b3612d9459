"""How a tenant knows a domain: by its real identifier, or by a surrogate that no other tenant knows it by."""

import uuid

from covey.model.ids import ProjectId


def surrogate(namespace: str, project: ProjectId, identifier: str) -> str:
    """What stands for a domain's real identifier, for one tenant. Whoever has the namespace can work it out."""
    tenant = uuid.uuid5(uuid.UUID(namespace), project)
    return str(uuid.uuid5(tenant, identifier))

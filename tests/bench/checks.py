"""Invariants of the database after a run."""

import sqlalchemy as sa

# Each statement selects violations, so it must return no rows.
_OVERUSE = {
    "the usage of a host exceeds its capacity": """
        SELECT provider_id FROM inventories WHERE used > (total - reserved) * allocation_ratio""",
    "usage is not the sum of the allocations": """
        SELECT i.provider_id FROM inventories i LEFT JOIN allocations a
            ON a.provider_id = i.provider_id AND a.resource_class = i.resource_class
        GROUP BY i.provider_id, i.resource_class, i.used HAVING i.used <> COALESCE(SUM(a.used), 0)""",
}
_VIOLATIONS = {
    **_OVERUSE,
    "a host has two members of an anti-affinity group": """
        SELECT m.group_id FROM instance_group_members m JOIN servers s ON s.id = m.server_id
            JOIN instance_group_policies p ON p.group_id = m.group_id
        WHERE p.policy = 'anti-affinity' AND p.scope_id IS NULL AND p.rules = '{}'
        GROUP BY m.group_id, s.host_id HAVING COUNT(*) > 1""",
    "a server is in no group": """
        SELECT s.id FROM servers s LEFT JOIN instance_group_members m ON m.server_id = s.id WHERE m.group_id IS NULL""",
    "a server is not active": "SELECT id FROM servers WHERE vm_state <> 'active' OR host_id IS NULL",
    "the allocations of a server do not match its size": """
        SELECT s.id FROM servers s LEFT JOIN allocations a ON a.consumer_uuid = s.id AND a.provider_id = s.host_id
            AND a.used = CASE a.resource_class
                WHEN 'VCPU' THEN s.vcpus WHEN 'MEMORY_MB' THEN s.memory_mb ELSE s.disk_gb END
        GROUP BY s.id HAVING COUNT(a.used) <> 3""",
    "the usage of a project is not the sum of its servers": """
        SELECT q.project_id FROM quota_usages q LEFT JOIN servers s ON s.project_id = q.project_id
        GROUP BY q.project_id, q.instances, q.cores, q.ram
        HAVING q.instances <> COUNT(s.id) OR q.cores <> SUM(s.vcpus) OR q.ram <> SUM(s.memory_mb)""",
    "unfinished work": "SELECT id FROM work",
}
_TOTALS = {
    "servers": "SELECT COUNT(*) FROM servers",
    "allocations": "SELECT COUNT(*) FROM allocations",
}


def problems(engine: sa.Engine, accepted: int) -> list[str]:
    """Return the violated invariants after `accepted` requests, each for one server with three resources."""
    with engine.connect() as connection:
        found = _violations(connection, _VIOLATIONS)
        totals = {name: connection.execute(sa.text(statement)).scalar_one() for name, statement in _TOTALS.items()}
    for name, expected in {"servers": accepted, "allocations": 3 * accepted}.items():
        if totals[name] != expected:
            found.append(f"{expected} {name} were accepted, {totals[name]} exist")
    return found


def overuse(engine: sa.Engine) -> list[str]:
    """Return the violated invariants of inventories and allocations."""
    with engine.connect() as connection:
        return _violations(connection, _OVERUSE)


def _violations(connection: sa.Connection, statements: dict[str, str]) -> list[str]:
    found = []
    for problem, statement in statements.items():
        rows = connection.execute(sa.text(statement)).all()
        if rows:
            found.append(f"{problem}: {len(rows)}, such as {rows[0][0]}")
    return found

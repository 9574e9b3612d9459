"""What must hold after a run, read from the rows."""

import sqlalchemy as sa

# Each finds what is wrong, and so should find nothing.
_OVERUSE = {
    "a host holds more than it has": """
        SELECT provider_id FROM inventories WHERE used > (total - reserved) * allocation_ratio""",
    "use is not the sum of the allocations": """
        SELECT i.provider_id FROM inventories i LEFT JOIN allocations a
            ON a.provider_id = i.provider_id AND a.resource_class = i.resource_class
        GROUP BY i.provider_id, i.resource_class, i.used HAVING i.used <> COALESCE(SUM(a.used), 0)""",
}
_WRONG = {
    **_OVERUSE,
    "a host has two members of an anti-affinity group": """
        SELECT m.group_id FROM instance_group_members m JOIN servers s ON s.id = m.server_id
            JOIN instance_group_policies p ON p.group_id = m.group_id
        WHERE p.policy = 'anti-affinity' AND p.scope_id IS NULL AND p.rules = '{}'
        GROUP BY m.group_id, s.host_id HAVING COUNT(*) > 1""",
    "a server is in no group": """
        SELECT s.id FROM servers s LEFT JOIN instance_group_members m ON m.server_id = s.id WHERE m.group_id IS NULL""",
    "a server does not run": "SELECT id FROM servers WHERE vm_state <> 'active' OR host_id IS NULL",
    "a server's allocations are not its size on its host": """
        SELECT s.id FROM servers s LEFT JOIN allocations a ON a.consumer_uuid = s.id AND a.provider_id = s.host_id
            AND a.used = CASE a.resource_class
                WHEN 'VCPU' THEN s.vcpus WHEN 'MEMORY_MB' THEN s.memory_mb ELSE s.disk_gb END
        GROUP BY s.id HAVING COUNT(a.used) <> 3""",
    "a project's use is not the sum of its servers": """
        SELECT q.project_id FROM quota_usages q LEFT JOIN servers s ON s.project_id = q.project_id
        GROUP BY q.project_id, q.instances, q.cores, q.ram
        HAVING q.instances <> COUNT(s.id) OR q.cores <> SUM(s.vcpus) OR q.ram <> SUM(s.memory_mb)""",
    "work is left": "SELECT id FROM work",
}
_TOTALS = {
    "servers": "SELECT COUNT(*) FROM servers",
    "allocations": "SELECT COUNT(*) FROM allocations",
}


def problems(engine: sa.Engine, accepted: int) -> list[str]:
    """What is wrong after so many requests were accepted, each for one server of three resources."""
    with engine.connect() as connection:
        found = _found(connection, _WRONG)
        totals = {name: connection.execute(sa.text(statement)).scalar_one() for name, statement in _TOTALS.items()}
    for name, wanted in {"servers": accepted, "allocations": 3 * accepted}.items():
        if totals[name] != wanted:
            found.append(f"{wanted} {name} were accepted, {totals[name]} are there")
    return found


def overuse(engine: sa.Engine) -> list[str]:
    """What is wrong with the use of inventories, whoever holds it."""
    with engine.connect() as connection:
        return _found(connection, _OVERUSE)


def _found(connection: sa.Connection, wrong: dict[str, str]) -> list[str]:
    found = []
    for what, statement in wrong.items():
        rows = connection.execute(sa.text(statement)).all()
        if rows:
            found.append(f"{what}: {len(rows)}, such as {rows[0][0]}")
    return found

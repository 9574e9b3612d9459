"""Server groups: their policies, their members, and the members' hosts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select, update

from covey.clock_and_ids import new_version
from covey.model.groups import HOST, Group, GroupPolicy, GroupState, PolicyKind, ScopeRef, rule_name
from covey.model.ids import GroupId, HostId, ProjectId, ScopeId, ServerId, UserId
from covey.storage.group_consumers import GroupConsumers
from covey.storage.rows import dump, execute, insert_rows, load
from covey.storage.tables import aggregates, servers
from covey.storage.tables import instance_group_members as members
from covey.storage.tables import instance_group_policies as policies
from covey.storage.tables import instance_group_policy_scopes as scopes
from covey.storage.tables import instance_groups as groups

_IDS: sa.BindParameter[object] = bindparam("ids", expanding=True)
LOCK_GROUPS = "SELECT id, version FROM instance_groups WHERE id IN ? ORDER BY id FOR UPDATE"
_OWNERS = select(groups.c.id, groups.c.project_id).where(groups.c.id.in_(_IDS))
_POLICIES = (
    select(
        policies.c.group_id,
        policies.c.policy,
        policies.c.scope_id,
        scopes.c.name,
        policies.c.identifier,
        policies.c.rules,
    )
    .join_from(policies, scopes, policies.c.scope_id == scopes.c.id, isouter=True)
    .where(policies.c.group_id.in_(_IDS))
    .order_by(policies.c.group_id, policies.c.position)
)
_WHOSE_AND_WHERE = (members.c.group_id, servers.c.user_id, servers.c.host_id, servers.c.second_host_id)
_MEMBERS_BY_HOST = (
    select(*_WHOSE_AND_WHERE, func.count())
    .join_from(members, servers, members.c.server_id == servers.c.id)
    .where(members.c.group_id.in_(_IDS))
    .group_by(*_WHOSE_AND_WHERE)
)
_MEMBERS = (
    select(members.c.group_id, members.c.server_id)
    .join_from(members, servers, members.c.server_id == servers.c.id)
    .where(members.c.group_id.in_(_IDS))
    .order_by(servers.c.created_at, servers.c.id)
)
_HOSTS = (
    select(members.c.group_id, members.c.server_id, servers.c.host_id)
    .join_from(members, servers, members.c.server_id == servers.c.id)
    .where(members.c.group_id.in_(_IDS))
    .order_by(servers.c.created_at, servers.c.id)
)
_ROWS = select(
    groups.c.id, groups.c.name, groups.c.project_id, groups.c.user_id, groups.c.version, groups.c.created_at
).order_by(groups.c.created_at, groups.c.id)
_MISSING_DOMAINS = (
    select(policies.c.group_id, scopes.c.name, policies.c.policy, policies.c.identifier)
    .join_from(policies, scopes, policies.c.scope_id == scopes.c.id)
    .where(
        policies.c.identifier.is_not(None),
        ~sa.exists().where(
            aggregates.c.scope_id == policies.c.scope_id,
            sa.cast(aggregates.c.id, sa.String) == policies.c.identifier,
        ),
    )
    .order_by(policies.c.group_id, policies.c.position)
)
_BUMP = update(groups).where(groups.c.id.in_(_IDS)).values(version=bindparam("new"))
_JOIN = insert(members)
_LEAVE = delete(members).where(members.c.server_id.in_(_IDS))
_OF_SERVER = select(members.c.group_id).where(members.c.server_id == bindparam("server"))


class Groups:
    """Every server group. A change of a group, or of its members' hosts, locks its row first and bumps its version."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(self, project: ProjectId | None, offset: int = 0, limit: int | None = None) -> list[Group]:
        """Return the groups of a project, or of all projects, oldest first."""
        query = _ROWS if project is None else _ROWS.where(groups.c.project_id == project)
        return self._load(query.offset(offset).limit(limit) if limit is not None or offset else query)

    def by_id(self, group: str) -> Group | None:
        found = self._load(_ROWS.where(groups.c.id == group))
        return found[0] if found else None

    def by_ids(self, ids: Sequence[GroupId]) -> list[Group]:
        return self._load(_ROWS.where(groups.c.id.in_(ids))) if ids else []

    def named(self, project: ProjectId, name: str) -> list[Group]:
        """Return a project's groups of that name, oldest first."""
        return self._load(_ROWS.where(groups.c.project_id == project, groups.c.name == name))

    def count(self, project: ProjectId) -> int:
        found: int = self._connection.execute(
            select(func.count()).select_from(groups).where(groups.c.project_id == project)
        ).scalar_one()
        return found

    def add(self, group: Group) -> None:
        values = {"id": group.id, "name": group.name, "project_id": group.project_id, "user_id": group.user_id}
        self._connection.execute(insert(groups), values | {"created_at": group.created_at})
        self._add_policies(group.id, group.policies)

    def add_all(self, new: Sequence[Group]) -> None:
        """Add groups, except those that exist."""
        rows = [(each.id, each.name, each.project_id, each.user_id, str(each.created_at)) for each in new]
        columns = ("id", "name", "project_id", "user_id", "created_at")
        cursors = insert_rows(self._connection, groups, columns, rows, " ON CONFLICT DO NOTHING RETURNING id")
        added = {group for cursor in cursors for (group,) in cursor.fetchall()}
        pairs = [
            _policy_row(each.id, position, policy)
            for each in new
            if each.id in added
            for position, policy in enumerate(each.policies)
        ]
        if pairs:
            self._connection.execute(insert(policies), pairs)

    def ids(self) -> set[str]:
        """Return the ids of all groups."""
        return set(self._connection.execute(select(groups.c.id)).scalars())

    def delete_all(self, ids: Sequence[GroupId]) -> None:
        if ids:
            execute(self._connection, "DELETE FROM instance_groups WHERE id IN ?", list(ids))

    def update(self, group: Group, now: datetime) -> None:
        """Store a group's name and policies."""
        condition = groups.c.id == group.id
        self._connection.execute(update(groups).where(condition).values(name=group.name, updated_at=now))
        self._connection.execute(delete(policies).where(policies.c.group_id == group.id))
        self._add_policies(group.id, group.policies)

    def delete(self, group: GroupId) -> None:
        self._connection.execute(delete(groups).where(groups.c.id == group))

    def owners(self, ids: Collection[GroupId]) -> dict[GroupId, ProjectId]:
        """Return the projects of those of the groups that exist."""
        rows = self._connection.execute(_OWNERS, {"ids": list(ids)})
        return {GroupId(group): ProjectId(project) for group, project in rows}

    def lock(self, ids: Iterable[GroupId]) -> dict[GroupId, int]:
        """Lock the groups' rows, by id. Return their versions."""
        sorted_ids = sorted(set(ids))
        if not sorted_ids:
            return {}
        return {
            GroupId(group): version for group, version in execute(self._connection, LOCK_GROUPS, sorted_ids).fetchall()
        }

    def states(self, versions: dict[GroupId, int]) -> dict[GroupId, GroupState]:
        """Return the states of locked groups, for a decision: Covey's servers and the consumers of other services."""
        if not versions:
            return {}
        others = GroupConsumers(self._connection).hosts(versions)
        states = self.server_states(versions)
        return {g: others[g].added_to(state) if g in others else state for g, state in states.items()}

    def server_states(self, versions: dict[GroupId, int]) -> dict[GroupId, GroupState]:
        """Return the states of locked groups by Covey's own servers alone."""
        ids = {"ids": list(versions)}
        members_by_host: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        users: dict[str, dict[UserId, int]] = defaultdict(lambda: defaultdict(int))
        migrating: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for group, user, first, second, number in self._connection.execute(_MEMBERS_BY_HOST, ids):
            users[group][user] += number
            for host in (first, second):
                if host is not None:
                    members_by_host[group][host] += number
            if second is not None:
                migrating[group] += [(first, second)] * number
        found = self._policies(list(versions))
        owners = self.owners(versions)
        return {
            group: GroupState(
                version,
                owners[group],
                found[group],
                dict(members_by_host[group]),
                dict(users[group]),
                tuple(migrating[group]),
            )
            for group, version in versions.items()
        }

    def member_hosts(self, ids: Collection[GroupId]) -> dict[GroupId, dict[str, HostId | None]]:
        """Return each member's host, for each group, oldest first; None for a member without a host.

        Members that another service runs follow Covey's servers.
        """
        found: dict[GroupId, dict[str, HostId | None]] = {group: {} for group in ids}
        if not ids:
            return found
        for group, server, host in self._connection.execute(_HOSTS, {"ids": [*ids]}):
            found[group][server] = host
        for group, member, host in self._hosts_of_instances(ids):
            found[group][member] = host
        return found

    def with_instances(self, found: Sequence[Group]) -> list[Group]:
        """Return groups with all their members: those that another service runs follow Covey's servers."""
        instances: dict[GroupId, list[ServerId]] = defaultdict(list)
        for group, member, _ in self._hosts_of_instances([each.id for each in found]):
            instances[group].append(ServerId(member))
        return [replace(each, members=(*each.members, *instances[each.id])) for each in found]

    def _hosts_of_instances(self, ids: Collection[GroupId]) -> Iterator[tuple[GroupId, str, HostId | None]]:
        """Yield the members that another service runs: those that have a host, and those that are mirrored."""
        consumers = GroupConsumers(self._connection)
        members = consumers.instances(ids) if ids else []
        if not members:
            return
        hosts = {group: held.host_by_member() for group, held in consumers.hosts(ids).items()}
        for member in members:
            host = hosts.get(member.group, {}).get(member.id)
            if host is not None or member.is_mirrored:
                yield member.group, member.id, None if host is None else HostId(host)

    def missing_domains(self, group: GroupId | None = None) -> list[tuple[GroupId, str]]:
        """Return the policies of a group, or of all groups, whose domain does not exist: (group, policy)."""
        query = _MISSING_DOMAINS if group is None else _MISSING_DOMAINS.where(policies.c.group_id == group)
        rows = self._connection.execute(query)
        return [(GroupId(found), f"{kind}:{scope}:{identifier}") for found, scope, kind, identifier in rows]

    def bump(self, ids: Iterable[GroupId]) -> None:
        """Bump the groups' versions, so that every process reloads their states."""
        sorted_ids = sorted(set(ids))
        if sorted_ids:
            self._connection.execute(_BUMP, {"ids": sorted_ids, "new": new_version()})

    def join(self, group: GroupId, server: ServerId) -> None:
        self._connection.execute(_JOIN, {"group_id": group, "server_id": server})

    def join_all(self, group: GroupId, ids: Sequence[ServerId]) -> None:
        if ids:
            self._connection.execute(_JOIN, [{"group_id": group, "server_id": server} for server in ids])

    def leave(self, ids: Sequence[ServerId]) -> None:
        if ids:
            self._connection.execute(_LEAVE, {"ids": ids})

    def of_server(self, server: ServerId) -> GroupId | None:
        found = self._connection.execute(_OF_SERVER, {"server": server}).scalar()
        return None if found is None else GroupId(found)

    def _add_policies(self, group: GroupId, new_policies: Sequence[GroupPolicy]) -> None:
        if new_policies:
            rows = [_policy_row(group, position, policy) for position, policy in enumerate(new_policies)]
            self._connection.execute(insert(policies), rows)

    def _policies(self, ids: Sequence[GroupId]) -> dict[str, tuple[GroupPolicy, ...]]:
        found: dict[str, list[GroupPolicy]] = defaultdict(list)
        for group, kind, scope_id, scope_name, identifier, rules in self._connection.execute(_POLICIES, {"ids": ids}):
            scope = HOST if scope_id is None else ScopeRef(ScopeId(scope_id), scope_name)
            limits = list(load(rules, dict[str, int]).values())
            limit = limits[0] if limits else 1
            found[group].append(GroupPolicy(PolicyKind(kind), scope, identifier, limit, bool(limits)))
        return defaultdict(tuple, {group: tuple(each) for group, each in found.items()})

    def _load(self, query: sa.Select[tuple[object, ...]]) -> list[Group]:
        rows = self._connection.execute(query).all()
        ids = [row.id for row in rows]
        if not ids:
            return []
        found = self._policies(ids)
        servers_of: dict[str, list[ServerId]] = defaultdict(list)
        for group, server in self._connection.execute(_MEMBERS, {"ids": ids}):
            servers_of[group].append(ServerId(server))
        return [
            Group(
                id=GroupId(row.id),
                name=row.name,
                project_id=ProjectId(row.project_id),
                user_id=UserId(row.user_id),
                policies=found[row.id],
                version=row.version,
                created_at=row.created_at,
                members=tuple(servers_of[row.id]),
            )
            for row in rows
        ]


def _policy_row(group: GroupId, position: int, policy: GroupPolicy) -> dict[str, object]:
    return {
        "group_id": group,
        "position": position,
        "policy": policy.kind,
        "scope_id": policy.scope.id,
        "identifier": policy.target,
        "rules": dump({rule_name(policy): policy.limit} if policy.has_rule else {}),
    }

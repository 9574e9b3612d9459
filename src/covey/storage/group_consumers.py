"""Consumers of other services as members of groups, and the hosts on which their allocations are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from covey.model.group_consumers import ConsumerHosts, GroupConsumer, MemberInstance
from covey.model.ids import GroupId
from covey.storage.evacuations import left_allocations
from covey.storage.rows import execute, insert_rows
from covey.storage.tables import group_consumers

GROUP_OF_CONSUMER = "(SELECT group_id FROM group_consumers WHERE consumer_uuid = consumers.uuid)"
"""A column of a statement on consumers."""

_FIND = "SELECT consumer_uuid, group_id, member_uuid FROM group_consumers WHERE consumer_uuid IN ?"
_ALL_MEMBERS = "SELECT member_uuid, group_id FROM group_consumers WHERE consumer_uuid = member_uuid"
_MEMBERS = """
    SELECT DISTINCT member_uuid FROM group_consumers WHERE group_id IN ? AND consumer_uuid = member_uuid
    ORDER BY member_uuid
"""
_INSTANCES = """
    SELECT g.group_id, g.member_uuid, s.name, s.status
    FROM group_consumers g LEFT JOIN nova_servers s ON s.id = g.member_uuid
    WHERE g.group_id IN ? AND g.consumer_uuid = g.member_uuid ORDER BY g.told_at, g.member_uuid
"""
# A sharing provider serves the hosts of its aggregates and is none itself.
_HOSTS_OF_MEMBERS = """
    SELECT DISTINCT g.group_id, g.member_uuid, g.consumer_uuid, COALESCE(p.root_id, p.id)
    FROM group_consumers g JOIN allocations a ON a.consumer_uuid = g.consumer_uuid
        JOIN resource_providers p ON p.id = a.provider_id
    WHERE g.group_id IN ? AND NOT EXISTS (
        SELECT 1 FROM provider_traits t
        WHERE t.provider_id = COALESCE(p.root_id, p.id) AND t.trait = 'MISC_SHARES_VIA_AGGREGATE')
"""
_COLUMNS = ("consumer_uuid", "group_id", "member_uuid", "told_at")
_OR_MOVE = """
    ON CONFLICT (consumer_uuid) DO UPDATE
    SET group_id = excluded.group_id, member_uuid = excluded.member_uuid, told_at = excluded.told_at
"""
_DELETE_MIGRATIONS = "DELETE FROM group_consumers WHERE consumer_uuid IN ? AND consumer_uuid <> member_uuid"
_DELETE_ABSENT = """
    DELETE FROM group_consumers WHERE group_id = ? AND told_at < ? AND NOT member_uuid IN ?
        AND NOT EXISTS (SELECT 1 FROM group_consumers o JOIN allocations a ON a.consumer_uuid = o.consumer_uuid
                        WHERE o.member_uuid = group_consumers.member_uuid)
"""
_DELETE_MEMBERS = """
    DELETE FROM group_consumers WHERE told_at < ? AND member_uuid IN ?
        AND NOT EXISTS (SELECT 1 FROM group_consumers o JOIN allocations a ON a.consumer_uuid = o.consumer_uuid
                        WHERE o.member_uuid = group_consumers.member_uuid)
    RETURNING member_uuid
"""


class GroupConsumers:
    """Who counts as which member of which group. A change locks the group first and bumps its version."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(self, consumers: Iterable[str]) -> dict[str, GroupConsumer]:
        """Return those of the consumers that belong to a group."""
        rows = execute(self._connection, _FIND, sorted(consumers)).fetchall()
        return {consumer: GroupConsumer(GroupId(group), member) for consumer, group, member in rows}

    def members(self, group: GroupId) -> list[str]:
        """Return the members of a group that another service runs."""
        return [member for (member,) in execute(self._connection, _MEMBERS, [group]).fetchall()]

    def instances(self, groups: Iterable[GroupId]) -> list[MemberInstance]:
        """Return the members of groups that another service runs, with what the mirror knows of them, oldest first."""
        rows = execute(self._connection, _INSTANCES, sorted(groups)).fetchall()
        return [MemberInstance(GroupId(group), member, name, status) for group, member, name, status in rows]

    def find_members(self) -> dict[str, GroupConsumer]:
        """Return all members that another service runs, with their groups."""
        rows = execute(self._connection, _ALL_MEMBERS).fetchall()
        return {member: GroupConsumer(GroupId(group), member) for member, group in rows}

    def hosts(self, groups: Iterable[GroupId]) -> Mapping[GroupId, ConsumerHosts]:
        """Return the hosts of the members of groups, for each group, and which of them evacuated members left."""
        found: dict[GroupId, ConsumerHosts] = defaultdict(ConsumerHosts)
        hosts: dict[tuple[GroupId, str, str], set[int]] = defaultdict(set)
        for group, member, consumer, host in execute(self._connection, _HOSTS_OF_MEMBERS, sorted(groups)).fetchall():
            hosts[group, member, consumer].add(host)
        several = [consumer for (_, _, consumer), held in hosts.items() if len(held) > 1]
        left: dict[str, set[int]] = defaultdict(set)
        for each in left_allocations(self._connection, several):
            left[each.consumer].add(each.host)
        for (group, member, consumer), held in hosts.items():
            found[group].hold(member, consumer, held, left.get(consumer, ()))
        return found

    def add(self, consumers: Mapping[str, GroupConsumer], now: datetime) -> None:
        """Add consumers; one of another group moves to its new one."""
        rows = [(consumer, each.group, each.member, str(now)) for consumer, each in sorted(consumers.items())]
        insert_rows(self._connection, group_consumers, _COLUMNS, rows, _OR_MOVE)

    def delete_migrations(self, consumers: Iterable[str]) -> None:
        """Delete those of the consumers that are migrations: their allocations are gone."""
        execute(self._connection, _DELETE_MIGRATIONS, sorted(consumers))

    def delete_members(self, members: Iterable[str], before: datetime) -> set[str]:
        """Delete these members, except those that hold allocations or were added after this moment.

        Return those that are deleted.
        """
        rows = execute(self._connection, _DELETE_MEMBERS, str(before), sorted(members)).fetchall()
        return {member for (member,) in rows}

    def delete_absent(self, group: GroupId, members: Iterable[str], before: datetime) -> None:
        """Delete all but these members, except those that hold allocations or were added after this moment.

        Such a younger one may be about to claim its first host.
        """
        execute(self._connection, _DELETE_ABSENT, group, str(before), sorted(members))

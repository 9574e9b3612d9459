"""Judges every claim by the topology at its commit, from a history that triggers record and commit timestamps order.

For PostgreSQL with track_commit_timestamp. All aggregates are domains of one scope, and group policies do not change.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import sqlalchemy as sa

_RECORD = """
    CREATE TABLE claim_history
        (seq bigserial PRIMARY KEY, kind text, added boolean, operation text, subject text, target text);
    CREATE FUNCTION record_history() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
        new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    BEGIN
        INSERT INTO claim_history (kind, added, operation, subject, target)
        SELECT TG_ARGV[0], r.added, TG_OP, r.content ->> TG_ARGV[1], r.content ->> TG_ARGV[2]
        FROM (VALUES (false, old_row), (true, new_row)) AS r(added, content)
        WHERE r.content IS NOT NULL AND coalesce(r.content ->> 'resource_class', 'VCPU') = 'VCPU';
        RETURN NULL;
    END $$;
"""
_RECORDED = {
    "aggregate_hosts": ("domain", "host_id", "aggregate_id"),
    "allocations": ("place", "consumer_uuid", "provider_id"),
    "instance_group_members": ("member", "server_id", "group_id"),
    "group_consumers": ("member", "consumer_uuid", "group_id"),
    "migrations": ("migration", "uuid", "server_id"),
}
_READ = sa.text("""
    SELECT xmin::text AS tx, pg_xact_commit_timestamp(xmin) AS at, kind, added, operation, subject, target
    FROM claim_history ORDER BY at, tx, seq
""")
_LIMITS = sa.text("""
    SELECT p.group_id, p.rules FROM instance_group_policies p
    WHERE p.policy = 'anti-affinity' AND p.scope_id IS NOT NULL AND p.identifier IS NULL
""")


def record(connected: sa.Engine) -> None:
    """Record from now on. Call it before the database has hosts."""
    with connected.begin() as connection:
        connection.execute(sa.text(_RECORD))
        for table, arguments in _RECORDED.items():
            connection.execute(
                sa.text(
                    f"CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON {table}"
                    f" FOR EACH ROW EXECUTE FUNCTION record_history({', '.join(map(repr, arguments))})"
                )
            )


@dataclass
class Judged:
    """How many claims of members of anti-affinity groups were judged, and a sentence for each that broke its policy."""

    claims: int = 0
    broken: list[str] = field(default_factory=list)


def judge(connected: sa.Engine) -> Judged:
    """Replay the history: a member's claim holds when fewer members than the limit have places in its domain."""
    with connected.connect() as connection:
        limits = {row.group_id: _limit(row.rules) for row in connection.execute(_LIMITS)}
        history = connection.execute(_READ).all()
    state, judged = _State(limits), Judged()
    for _, events in groupby(history, key=lambda event: event.tx):
        together = list(events)
        state.apply(together)
        for event in together:
            if (event.kind, event.operation, event.added) == ("place", "INSERT", True):
                judged.claims += state.is_limited(event.subject)
                judged.broken += (f"{event.at}: {wrong}" for wrong in state.violations(event.subject, event.target))
    return judged


def _limit(rules: str) -> int:
    return int(next(iter(json.loads(rules).values()), 1))


@dataclass
class _State:
    """The topology and the places after a commit."""

    limits: dict[str, int]
    domain_of: dict[str, str] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)
    server_of: dict[str, str] = field(default_factory=dict)  # by migration
    hosts_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by consumer

    def apply(self, events: Sequence[Any]) -> None:
        for event in events:
            if event.kind == "place":
                places = self.hosts_of[event.subject]
                (places.add if event.added else places.discard)(event.target)
                continue
            known = {"domain": self.domain_of, "member": self.group_of, "migration": self.server_of}[event.kind]
            if event.added:
                known[event.subject] = event.target
            elif event.kind != "migration" and known.get(event.subject) == event.target:
                del known[event.subject]

    def is_limited(self, consumer: str) -> bool:
        return self._group(consumer) in self.limits

    def violations(self, consumer: str, host: str) -> Iterator[str]:
        group, domain = self._group(consumer), self.domain_of.get(host)
        if group is None or group not in self.limits or host not in self.hosts_of[consumer]:
            return
        if domain is None:
            yield f"{consumer} claimed host {host}, which is in no domain"
            return
        others = {
            self.server_of.get(other, other)
            for other, hosts in self.hosts_of.items()
            if self._group(other) == group and any(self.domain_of.get(each) == domain for each in hosts)
        } - {self.server_of.get(consumer, consumer)}
        if len(others) >= self.limits[group]:
            yield f"{consumer} claimed host {host} in domain {domain}, which had {len(others)} of group {group}"

    def _group(self, consumer: str) -> str | None:
        return self.group_of.get(self.server_of.get(consumer, consumer))

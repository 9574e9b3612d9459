"""Agents of hosts, their calls, and what guests get at their first boot."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, SERIAL, TEXT, UUID, metadata
from covey.storage.tables.fleet import hosts
from covey.storage.tables.servers import servers
from covey.storage.tables.work import work

# One for each host that has an agent. Times are those of the database's clock.
agents = sa.Table(
    "agents",
    metadata,
    sa.Column("host_id", sa.ForeignKey(hosts.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", PROJECT, nullable=False),  # bound at the first registration
    sa.Column("hypervisor", NAME, nullable=False),
    sa.Column("version", NAME, nullable=False),
    sa.Column("address", NAME, nullable=False),
    sa.Column("machine_id", NAME),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("traits", TEXT, nullable=False),  # JSON: those that the agent reported; others are the operator's
    sa.Column("self_fencing_s", sa.Float),
    sa.Column("heartbeat_at", sa.DateTime, nullable=False),
    sa.Column("lease_until", sa.DateTime),  # until then the agent may keep guests running without contact
    sa.Column("fenced_at", sa.DateTime),
    sa.Column("fencing_by", UUID),  # the process that runs the fence command; a registration clears it
    sa.Column("fencing_until", sa.DateTime),
    sa.Column("fencing_error", TEXT),  # of the last run, until a job takes it
    sa.Column("registered_at", sa.DateTime, nullable=False),
)

# Calls of the driver. A call ends with its job: a deleted job deletes its calls.
agent_calls = sa.Table(
    "agent_calls",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("host_id", sa.ForeignKey(agents.c.host_id, ondelete="CASCADE"), nullable=False),
    sa.Column("server_id", UUID, nullable=False, index=True),
    sa.Column("job_id", sa.ForeignKey(work.c.id, ondelete="CASCADE")),  # NULL for a call of a request
    sa.Column("verb", sa.String(16), nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("arguments", TEXT, nullable=False),  # JSON
    sa.Column("guest", TEXT, nullable=False),  # JSON
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("progress", TEXT),  # JSON
    sa.Column("result", TEXT),
    sa.Column("error", TEXT),
    sa.Column("abort", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("leased_until", sa.DateTime),  # NULL while no agent has it
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.UniqueConstraint("job_id", "verb", "host_id"),
    sa.Index("ix_agent_calls_host_id_state", "host_id", "state"),
    sqlite_autoincrement=True,
)

# Only servers that were created with user data or a key have a row.
server_boot_data = sa.Table(
    "server_boot_data",
    metadata,
    sa.Column("server_id", sa.ForeignKey(servers.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("user_data", TEXT),  # base64
    sa.Column("key_name", NAME),
    sa.Column("public_key", TEXT),
)

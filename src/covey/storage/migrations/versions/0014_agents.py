"""Agents of hosts, their calls, and the boot data of servers."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("hosts", sa.Column("agent_down", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("work", sa.Column("woken", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("migrations", sa.Column("abort", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "agents",
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("hypervisor", sa.String(length=255), nullable=False),
        sa.Column("version", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("traits", sa.Text(), nullable=False),
        sa.Column("self_fencing_s", sa.Float(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(), nullable=False),
        sa.Column("lease_until", sa.DateTime(), nullable=True),
        sa.Column("fenced_at", sa.DateTime(), nullable=True),
        sa.Column("registered_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_agents_host_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("host_id", name="pk_agents"),
    )
    op.create_table(
        "agent_calls",
        sa.Column("id", _SERIAL, nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", _SERIAL, nullable=True),
        sa.Column("verb", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("guest", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("abort", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("leased_until", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["agents.host_id"], name="fk_agent_calls_host_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["job_id"], ["work.id"], name="fk_agent_calls_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_agent_calls"),
        sa.UniqueConstraint("job_id", "verb", "host_id", name="uq_agent_calls_job_id_verb_host_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_agent_calls_server_id", "agent_calls", ["server_id"])
    op.create_index("ix_agent_calls_host_id_state", "agent_calls", ["host_id", "state"])
    op.create_table(
        "server_boot_data",
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("user_data", sa.Text(), nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column("public_key", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["server_id"], ["servers.id"], name="fk_server_boot_data_server_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("server_id", name="pk_server_boot_data"),
    )

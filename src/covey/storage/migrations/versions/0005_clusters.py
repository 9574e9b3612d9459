"""Clusters, their nodes and policies, and what is done to them."""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('cluster_actions',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('verb', sa.String(length=32), nullable=False),
    sa.Column('target', sa.String(length=36), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=True),
    sa.Column('parent_id', sa.String(length=36), nullable=True),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('roles', sa.Text(), nullable=False),
    sa.Column('cause', sa.String(length=64), nullable=False),
    sa.Column('status', sa.String(length=32), nullable=False),
    sa.Column('status_reason', sa.Text(), nullable=False),
    sa.Column('inputs', sa.Text(), nullable=False),
    sa.Column('outputs', sa.Text(), nullable=False),
    sa.Column('data', sa.Text(), nullable=False),
    sa.Column('timeout', sa.Integer(), nullable=False),
    sa.Column('worker', sa.String(length=255), nullable=True),
    sa.Column('to_be_cancelled', sa.Boolean(), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=False),
    sa.Column('started_at', sa.DateTime(), nullable=True),
    sa.Column('ended_at', sa.DateTime(), nullable=True),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['parent_id'], ['cluster_actions.id'], name=op.f('fk_cluster_actions_parent_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cluster_actions'))
    )
    op.create_index(op.f('ix_cluster_actions_cluster_id'), 'cluster_actions', ['cluster_id'])
    op.create_index(op.f('ix_cluster_actions_created_at'), 'cluster_actions', ['created_at'])
    op.create_index(op.f('ix_cluster_actions_name'), 'cluster_actions', ['name'])
    op.create_index(op.f('ix_cluster_actions_parent_id'), 'cluster_actions', ['parent_id'])
    op.create_index(op.f('ix_cluster_actions_project_id'), 'cluster_actions', ['project_id'])
    op.create_index(op.f('ix_cluster_actions_target'), 'cluster_actions', ['target'])

    op.create_table('cluster_engines',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('host', sa.String(length=255), nullable=False),
    sa.Column('updated_at', sa.DateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cluster_engines'))
    )
    op.create_table('cluster_events',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('timestamp', sa.DateTime(), nullable=False),
    sa.Column('object_id', sa.String(length=36), nullable=False),
    sa.Column('object_name', sa.String(length=255), nullable=False),
    sa.Column('object_type', sa.String(length=16), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=True),
    sa.Column('level', sa.SmallInteger(), nullable=False),
    sa.Column('action', sa.String(length=32), nullable=False),
    sa.Column('phase', sa.String(length=16), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cluster_events'))
    )
    op.create_index(op.f('ix_cluster_events_cluster_id'), 'cluster_events', ['cluster_id'])
    op.create_index(op.f('ix_cluster_events_object_id'), 'cluster_events', ['object_id'])
    op.create_index(op.f('ix_cluster_events_project_id'), 'cluster_events', ['project_id'])
    op.create_index(op.f('ix_cluster_events_timestamp'), 'cluster_events', ['timestamp'])

    op.create_table('policies',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('type', sa.String(length=255), nullable=False),
    sa.Column('spec', sa.Text(), nullable=False),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=False),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_policies'))
    )
    op.create_index(op.f('ix_policies_name'), 'policies', ['name'])
    op.create_index(op.f('ix_policies_project_id'), 'policies', ['project_id'])

    op.create_table('profiles',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('type', sa.String(length=255), nullable=False),
    sa.Column('spec', sa.Text(), nullable=False),
    sa.Column('metadata', sa.Text(), nullable=False),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=False),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_profiles'))
    )
    op.create_index(op.f('ix_profiles_name'), 'profiles', ['name'])
    op.create_index(op.f('ix_profiles_project_id'), 'profiles', ['project_id'])

    op.create_table('cluster_locks',
    sa.Column('target', sa.String(length=36), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=True),
    sa.Column('action_id', sa.String(length=36), nullable=False),
    sa.ForeignKeyConstraint(['action_id'], ['cluster_actions.id'], name=op.f('fk_cluster_locks_action_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('target', name=op.f('pk_cluster_locks'))
    )
    op.create_index(op.f('ix_cluster_locks_action_id'), 'cluster_locks', ['action_id'])
    op.create_index(op.f('ix_cluster_locks_cluster_id'), 'cluster_locks', ['cluster_id'])

    op.create_table('clusters',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('profile_id', sa.String(length=36), nullable=False),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('init_at', sa.DateTime(), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=True),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.Column('min_size', sa.Integer(), nullable=False),
    sa.Column('max_size', sa.Integer(), nullable=False),
    sa.Column('desired_capacity', sa.Integer(), nullable=False),
    sa.Column('next_index', sa.Integer(), nullable=False),
    sa.Column('timeout', sa.Integer(), nullable=False),
    sa.Column('status', sa.String(length=32), nullable=False),
    sa.Column('status_reason', sa.Text(), nullable=False),
    sa.Column('metadata', sa.Text(), nullable=False),
    sa.Column('data', sa.Text(), nullable=False),
    sa.Column('dependents', sa.Text(), nullable=False),
    sa.Column('config', sa.Text(), nullable=False),
    sa.CheckConstraint('min_size >= 0 AND desired_capacity >= 0 AND next_index >= 1', name=op.f('ck_clusters_sizes')),
    sa.ForeignKeyConstraint(['profile_id'], ['profiles.id'], name=op.f('fk_clusters_profile_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_clusters'))
    )
    op.create_index(op.f('ix_clusters_name'), 'clusters', ['name'])
    op.create_index(op.f('ix_clusters_profile_id'), 'clusters', ['profile_id'])
    op.create_index(op.f('ix_clusters_project_id'), 'clusters', ['project_id'])

    op.create_table('cluster_policies',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=False),
    sa.Column('policy_id', sa.String(length=36), nullable=False),
    sa.Column('priority', sa.Integer(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('data', sa.Text(), nullable=False),
    sa.Column('group_id', sa.String(length=36), nullable=True),
    sa.Column('last_op', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['cluster_id'], ['clusters.id'], name=op.f('fk_cluster_policies_cluster_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['policy_id'], ['policies.id'], name=op.f('fk_cluster_policies_policy_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cluster_policies')),
    sa.UniqueConstraint('cluster_id', 'policy_id', name=op.f('uq_cluster_policies_cluster_id_policy_id'))
    )
    op.create_index(op.f('ix_cluster_policies_group_id'), 'cluster_policies', ['group_id'])
    op.create_index(op.f('ix_cluster_policies_policy_id'), 'cluster_policies', ['policy_id'])

    op.create_table('nodes',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('profile_id', sa.String(length=36), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=True),
    sa.Column('server_id', sa.String(length=36), nullable=True),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('role', sa.String(length=255), nullable=True),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('init_at', sa.DateTime(), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=True),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.Column('status', sa.String(length=32), nullable=False),
    sa.Column('status_reason', sa.Text(), nullable=False),
    sa.Column('metadata', sa.Text(), nullable=False),
    sa.Column('data', sa.Text(), nullable=False),
    sa.Column('dependents', sa.Text(), nullable=False),
    sa.Column('tainted', sa.Boolean(), nullable=False),
    sa.ForeignKeyConstraint(['cluster_id'], ['clusters.id'], name=op.f('fk_nodes_cluster_id')),
    sa.ForeignKeyConstraint(['profile_id'], ['profiles.id'], name=op.f('fk_nodes_profile_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_nodes')),
    sa.UniqueConstraint('server_id', name=op.f('uq_nodes_server_id'))
    )
    op.create_index(op.f('ix_nodes_cluster_id'), 'nodes', ['cluster_id'])
    op.create_index(op.f('ix_nodes_name'), 'nodes', ['name'])
    op.create_index(op.f('ix_nodes_profile_id'), 'nodes', ['profile_id'])
    op.create_index(op.f('ix_nodes_project_id'), 'nodes', ['project_id'])

    op.create_table('receivers',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('type', sa.String(length=32), nullable=False),
    sa.Column('cluster_id', sa.String(length=36), nullable=True),
    sa.Column('action', sa.String(length=32), nullable=True),
    sa.Column('params', sa.Text(), nullable=False),
    sa.Column('roles', sa.Text(), nullable=False),
    sa.Column('user_id', sa.String(length=255), nullable=False),
    sa.Column('project_id', sa.String(length=255), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=False),
    sa.Column('updated_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['cluster_id'], ['clusters.id'], name=op.f('fk_receivers_cluster_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_receivers'))
    )
    op.create_index(op.f('ix_receivers_cluster_id'), 'receivers', ['cluster_id'])
    op.create_index(op.f('ix_receivers_name'), 'receivers', ['name'])
    op.create_index(op.f('ix_receivers_project_id'), 'receivers', ['project_id'])


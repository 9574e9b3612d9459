"""Runs migrations on the connection that `covey.storage.schema` hands over."""

from alembic import context

from covey.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()

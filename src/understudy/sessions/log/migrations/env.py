"""What alembic runs: the migrations, on the connection it is given and inside its transaction."""

from alembic import context

from understudy.sessions.log.tables import METADATA

# All of a migration or nothing of it, on SQLite too: the caller has begun the transaction and commits it.
context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()

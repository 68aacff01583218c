"""The log of events, which the database itself keeps from being changed, and who serves it."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ONLY_AT_THE_END = "the log of events is only added to"

SQLITE = [
    f"CREATE TRIGGER events_keep BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, '{ONLY_AT_THE_END}'); END",
    f"CREATE TRIGGER events_stay BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, '{ONLY_AT_THE_END}'); END",
    # INSERT OR REPLACE deletes without asking the trigger above.
    f"""CREATE TRIGGER events_follow BEFORE INSERT ON events
    WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM events)
      OR EXISTS (SELECT 1 FROM events WHERE annotator = NEW.annotator AND key = NEW.key)
    BEGIN SELECT RAISE(ABORT, '{ONLY_AT_THE_END}, and a key is used once'); END""",
]
POSTGRESQL = [
    f"""CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{ONLY_AT_THE_END}'; END $$""",
    "CREATE TRIGGER events_keep BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION events_refuse()",
    "CREATE TRIGGER events_stay BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION events_refuse()",
]


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("item", sa.BigInteger()),
        sa.Column("annotator", sa.Text()),
        sa.Column("key", sa.Text()),
        sa.Column("data", sa.Text(), nullable=False),
    )
    has_key = sa.text("key IS NOT NULL")
    op.create_index(
        "events_by_key", "events", ["annotator", "key"], unique=True, sqlite_where=has_key, postgresql_where=has_key
    )
    op.create_table(
        "servers",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
    )
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)

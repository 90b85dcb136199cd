"""Live text that readers of other processes are shown, as long as somebody reads it."""

from sqlalchemy import Connection

from Middleware.conversations.migrations.run_statements import run_statements

_STATEMENTS = """
CREATE TABLE conversation_live (
    conversation_id TEXT PRIMARY KEY,
    watched_until DOUBLE PRECISION NOT NULL,
    turn INTEGER,
    attempt INTEGER,
    text TEXT
);
"""


def m0002_live_text(connection: Connection) -> None:
    run_statements(connection, _STATEMENTS)

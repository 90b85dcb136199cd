"""What doors keep beside a signal and a conversation, and the wish that a turn be stopped."""

from sqlalchemy import Connection

from Middleware.conversations.migrations.run_statements import run_statements

_STATEMENTS = """
ALTER TABLE conversations ADD COLUMN metadata TEXT;
ALTER TABLE conversation_signals ADD COLUMN asked TEXT;
ALTER TABLE conversation_turns ADD COLUMN stop_requested INTEGER NOT NULL DEFAULT 0;
CREATE INDEX conversation_turns_proposal ON conversation_turns (proposal_id)
    WHERE proposal_id IS NOT NULL;
CREATE INDEX conversation_turns_message ON conversation_turns (conversation_id, message_sequence);
"""


def m0003_doors(connection: Connection) -> None:
    run_statements(connection, _STATEMENTS)

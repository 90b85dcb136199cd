"""The tables of durable conversations, as the newest migration leaves them.

Times are seconds since 1970, by the database's clock. JSON is kept as text: neither database is
asked to look inside.
"""

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint, text

metadata = MetaData()

conversations = Table(
    "conversations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("profile", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("closed_reason", Text),
    Column("turn_count", Integer, nullable=False),
    Column("turns_this_run", Integer, nullable=False),
    Column("turn", Integer),
    Column("proposal_id", Text),
    Column("wait_since", Float),
    Column("deadline", Float),
    Column("summary", Text, nullable=False),
    Column("latest_reply_reference", Text),
    Column("buffered_messages", Integer, nullable=False),
    Column("buffered_decisions", Integer, nullable=False),
    Column("cancel_requested", Integer, nullable=False),
    Column("next_sequence", Integer, nullable=False),
    Column("next_event", Integer, nullable=False),
    Column("task_id", Text),
    Column("task_number", Integer, nullable=False),
    Column("task_claim", Text),
    Column("task_owner", Text),
    Column("task_enqueued_at", Float),
    Column("task_repairs", Integer, nullable=False),
    Column("task_retry_at", Float, nullable=False),
    Column("started_by", Text),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    # Labels of a client, as a JSON object.
    Column("metadata", Text),
)
# What the repair pass looks for. Conversations that wait in good health are in neither index but
# the last, which is read from its old end only.
Index(
    "conversations_with_task",
    conversations.c.task_retry_at,
    sqlite_where=text("task_id IS NOT NULL"),
    postgresql_where=text("task_id IS NOT NULL"),
)
Index(
    "conversations_waiting",
    conversations.c.deadline,
    sqlite_where=text("task_id IS NULL AND phase <> 'completed'"),
    postgresql_where=text("task_id IS NULL AND phase <> 'completed'"),
)
STRANDED = (
    "task_id IS NULL AND CASE phase WHEN 'completed' THEN FALSE"
    " WHEN 'waiting_for_input' THEN buffered_messages > 0"
    " WHEN 'awaiting_approval' THEN buffered_decisions > 0 ELSE TRUE END"
)
"""Conversations that should have a task and have none: ``rules.must_have_task`` in SQL. An index
serves it only when it is asked for in these very words."""
Index(
    "conversations_stranded",
    conversations.c.id,
    sqlite_where=text(STRANDED),
    postgresql_where=text(STRANDED),
)
WAITING_TASK = (
    "SELECT 1 FROM conversations WHERE task_id IS NOT NULL AND task_owner IS NULL LIMIT 1"
)
"""As text, because it is asked ten times a second by each worker."""
Index("conversations_by_age", conversations.c.created_at, conversations.c.id)

runs = Table(
    "conversation_runs",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("state_in", Text, nullable=False),
    Column("result", Text),
    Column("previous_run", Text),
    Column("next_run", Text),
    Column("started_at", Float, nullable=False),
    Column("closed_at", Float),
)

signals = Table(
    "conversation_signals",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("signal_id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("target_run", Text),
    Column("sender", Text),
    Column("request_id", Text),
    Column("fingerprint", Text, nullable=False),
    Column("accepted_run", Text, nullable=False),
    Column("received_at", Float, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("applied_run", Text),
    Column("applied_turn", Integer),
    Column("closed_at", Float),
    # What the door that accepted it will want to know again, as a JSON object.
    Column("asked", Text),
    UniqueConstraint("conversation_id", "request_id", name="conversation_signals_request"),
)
Index(
    "conversation_signals_buffered",
    signals.c.conversation_id,
    signals.c.name,
    signals.c.sequence,
    sqlite_where=text("status = 'received'"),
    postgresql_where=text("status = 'received'"),
)

turns = Table(
    "conversation_turns",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("turn", Integer, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("message_sequence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("outcome_recorded", Integer, nullable=False),
    # What the model said. Kept for a repeated step, and blanked when the turn ends (REP-2).
    Column("reply", Text),
    Column("replies", Text),
    Column("next_summary", Text),
    Column("action_name", Text),
    Column("action_arguments", Text),
    Column("action_text", Text),
    Column("proposal_id", Text),
    Column("proposal_deadline", Float),
    Column("action_attempts", Integer, nullable=False),
    Column("action_failures", Integer, nullable=False),
    Column("decision", Text),
    Column("decision_sequence", Integer),
    Column("reviewer", Text),
    Column("decided_by", Text),
    Column("error", Text),
    Column("outcome", Text),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("stop_requested", Integer, nullable=False, server_default="0"),
)
Index(
    "conversation_turns_proposal",
    turns.c.proposal_id,
    sqlite_where=text("proposal_id IS NOT NULL"),
    postgresql_where=text("proposal_id IS NOT NULL"),
)
Index("conversation_turns_message", turns.c.conversation_id, turns.c.message_sequence)

records = Table(
    "conversation_records",
    metadata,
    Column("reference", Text, primary_key=True),
    Column("conversation_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("action", Text),
    Column("action_reference", Text),
    Column("created_at", Float, nullable=False),
)
Index("conversation_records_of", records.c.conversation_id, records.c.turn)

actions = Table(
    "conversation_actions",
    metadata,
    Column("reference", Text, primary_key=True),
    Column("conversation_id", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("applied_at", Float, nullable=False),
)

history = Table(
    "conversation_history",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Float, nullable=False),
)

live = Table(
    "conversation_live",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("watched_until", Float, nullable=False),
    Column("turn", Integer),
    Column("attempt", Integer),
    Column("text", Text),
)
"""Of conversations that somebody reads in another process; not durable (MAP-6)."""

refusals = Table(
    "conversation_refusals",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("conversation_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text),
    Column("sender", Text),
    Column("request_id", Text),
    Column("at", Float, nullable=False),
)
Index("conversation_refusals_of", refusals.c.conversation_id, refusals.c.id)

executors = Table(
    "conversation_executors",
    metadata,
    Column("id", Text, primary_key=True),
    Column("about", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

duties = Table(
    "conversation_duties",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    Column("expires_at", Float, nullable=False),
    Column("done_at", Float, nullable=False),
)

migrations = Table(
    "conversation_migrations",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("at", Float, nullable=False),
)

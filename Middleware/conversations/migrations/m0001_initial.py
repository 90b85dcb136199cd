"""All tables of the first release. Never changed again: what comes later is the next module."""

from sqlalchemy import Connection

from Middleware.conversations.migrations.run_statements import run_statements

_STATEMENTS = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    options TEXT NOT NULL,
    generation INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    closed_reason TEXT,
    turn_count INTEGER NOT NULL,
    turns_this_run INTEGER NOT NULL,
    turn INTEGER,
    proposal_id TEXT,
    wait_since DOUBLE PRECISION,
    deadline DOUBLE PRECISION,
    summary TEXT NOT NULL,
    latest_reply_reference TEXT,
    buffered_messages INTEGER NOT NULL,
    buffered_decisions INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL,
    next_event INTEGER NOT NULL,
    task_id TEXT,
    task_number INTEGER NOT NULL,
    task_claim TEXT,
    task_owner TEXT,
    task_enqueued_at DOUBLE PRECISION,
    task_repairs INTEGER NOT NULL,
    task_retry_at DOUBLE PRECISION NOT NULL,
    started_by TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX conversations_with_task ON conversations (task_retry_at) WHERE task_id IS NOT NULL;
CREATE INDEX conversations_waiting ON conversations (deadline)
    WHERE task_id IS NULL AND phase <> 'completed';
CREATE INDEX conversations_stranded ON conversations (id)
    WHERE task_id IS NULL AND CASE phase WHEN 'completed' THEN FALSE
    WHEN 'waiting_for_input' THEN buffered_messages > 0
    WHEN 'awaiting_approval' THEN buffered_decisions > 0 ELSE TRUE END;
CREATE INDEX conversations_by_age ON conversations (created_at, id);
CREATE TABLE conversation_runs (
    conversation_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    run_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    reason TEXT,
    state_in TEXT NOT NULL,
    result TEXT,
    previous_run TEXT,
    next_run TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    closed_at DOUBLE PRECISION,
    PRIMARY KEY (conversation_id, generation)
);
CREATE TABLE conversation_signals (
    conversation_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    signal_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    target_run TEXT,
    sender TEXT,
    request_id TEXT,
    fingerprint TEXT NOT NULL,
    accepted_run TEXT NOT NULL,
    received_at DOUBLE PRECISION NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    applied_run TEXT,
    applied_turn INTEGER,
    closed_at DOUBLE PRECISION,
    PRIMARY KEY (conversation_id, sequence),
    CONSTRAINT conversation_signals_request UNIQUE (conversation_id, request_id)
);
CREATE INDEX conversation_signals_buffered
    ON conversation_signals (conversation_id, name, sequence) WHERE status = 'received';
CREATE TABLE conversation_turns (
    conversation_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    message_sequence INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    outcome_recorded INTEGER NOT NULL,
    reply TEXT,
    replies TEXT,
    next_summary TEXT,
    action_name TEXT,
    action_arguments TEXT,
    action_text TEXT,
    proposal_id TEXT,
    proposal_deadline DOUBLE PRECISION,
    action_attempts INTEGER NOT NULL,
    action_failures INTEGER NOT NULL,
    decision TEXT,
    decision_sequence INTEGER,
    reviewer TEXT,
    decided_by TEXT,
    error TEXT,
    outcome TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    PRIMARY KEY (conversation_id, turn)
);
CREATE TABLE conversation_records (
    reference TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    text TEXT NOT NULL,
    action TEXT,
    action_reference TEXT,
    created_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX conversation_records_of ON conversation_records (conversation_id, turn);
CREATE TABLE conversation_actions (
    reference TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    applied_at DOUBLE PRECISION NOT NULL
);
CREATE TABLE conversation_history (
    conversation_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (conversation_id, number)
);
CREATE TABLE conversation_refusals (
    id {serial},
    conversation_id TEXT NOT NULL,
    name TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    sender TEXT,
    request_id TEXT,
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX conversation_refusals_of ON conversation_refusals (conversation_id, id);
CREATE TABLE conversation_executors (
    id TEXT PRIMARY KEY,
    about TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);
CREATE TABLE conversation_duties (
    name TEXT PRIMARY KEY,
    holder TEXT,
    expires_at DOUBLE PRECISION NOT NULL,
    done_at DOUBLE PRECISION NOT NULL
);
"""


def m0001_initial(connection: Connection) -> None:
    run_statements(connection, _STATEMENTS)

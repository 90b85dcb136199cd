BEGIN TRANSACTION;
CREATE TABLE application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL UNIQUE,
    version_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL);
INSERT INTO "application_versions" VALUES('7a663528-7138-4988-bb25-2887b6c0a5f9','conversations-1',1796083687000,1796083687000,'headrace');
CREATE TABLE conversation_actions (
    reference TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    applied_at DOUBLE PRECISION NOT NULL
);
CREATE TABLE conversation_duties (
    name TEXT PRIMARY KEY,
    holder TEXT,
    expires_at DOUBLE PRECISION NOT NULL,
    done_at DOUBLE PRECISION NOT NULL
);
INSERT INTO "conversation_duties" VALUES('repair',NULL,0.0,1.79608368920972037317e+09);
INSERT INTO "conversation_duties" VALUES('retention',NULL,0.0,1.79608368921365880964e+09);
CREATE TABLE conversation_executors (
    id TEXT PRIMARY KEY,
    about TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);
INSERT INTO "conversation_executors" VALUES('exec-ffdafc74bc2547daad4a8c0e8035b550','host pid 1',1796083689.10603,1796083719.10603);
CREATE TABLE conversation_history (
    conversation_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (conversation_id, number)
);
INSERT INTO "conversation_history" VALUES('waiting',1,'run-495371dbd6c34d71b4ca6596ebf94b81','run_started','{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}',1.79608368795409870143e+09);
INSERT INTO "conversation_history" VALUES('waiting',2,'run-495371dbd6c34d71b4ca6596ebf94b81','signal_received','{"sequence": 1, "name": "message"}',1.79608368795682859422e+09);
INSERT INTO "conversation_history" VALUES('waiting',3,'run-495371dbd6c34d71b4ca6596ebf94b81','task_leased','{"task": "waiting/t1", "owner": "exec-783ab5296fd848179410055b17dc2c1f"}',1.79608368897012472147e+09);
INSERT INTO "conversation_history" VALUES('waiting',4,'run-495371dbd6c34d71b4ca6596ebf94b81','signal_applied','{"sequence": 1, "name": "message", "turn": 1}',1.79608368897808504107e+09);
INSERT INTO "conversation_history" VALUES('waiting',5,'run-495371dbd6c34d71b4ca6596ebf94b81','phase_changed','{"phase": "thinking"}',1.79608368897808504107e+09);
INSERT INTO "conversation_history" VALUES('waiting',6,'run-495371dbd6c34d71b4ca6596ebf94b81','activity_started','{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-783ab5296fd848179410055b17dc2c1f"}',1.79608368898623943325e+09);
INSERT INTO "conversation_history" VALUES('waiting',7,'run-495371dbd6c34d71b4ca6596ebf94b81','activity_completed','{"activity": "model", "turn": 1, "attempt": 1}',1.79608368899073195454e+09);
INSERT INTO "conversation_history" VALUES('waiting',8,'run-495371dbd6c34d71b4ca6596ebf94b81','phase_changed','{"phase": "recording_reply"}',1.79608368899073195454e+09);
INSERT INTO "conversation_history" VALUES('waiting',9,'run-495371dbd6c34d71b4ca6596ebf94b81','reply_recorded','{"reference": "waiting:1", "turn": 1, "outcome": "replied"}',1.79608368899563145635e+09);
INSERT INTO "conversation_history" VALUES('waiting',10,'run-495371dbd6c34d71b4ca6596ebf94b81','phase_changed','{"phase": "waiting_for_input"}',1.79608368900333881376e+09);
INSERT INTO "conversation_history" VALUES('approving',1,'run-7e923afb53d34547a7e1587b1ac69a40','run_started','{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}',1.79608368901288366313e+09);
INSERT INTO "conversation_history" VALUES('approving',2,'run-7e923afb53d34547a7e1587b1ac69a40','signal_received','{"sequence": 1, "name": "message"}',1.7960836890148396492e+09);
INSERT INTO "conversation_history" VALUES('approving',3,'run-7e923afb53d34547a7e1587b1ac69a40','task_leased','{"task": "approving/t1", "owner": "exec-783ab5296fd848179410055b17dc2c1f"}',1.79608368903747963899e+09);
INSERT INTO "conversation_history" VALUES('approving',4,'run-7e923afb53d34547a7e1587b1ac69a40','signal_applied','{"sequence": 1, "name": "message", "turn": 1}',1.79608368904009056089e+09);
INSERT INTO "conversation_history" VALUES('approving',5,'run-7e923afb53d34547a7e1587b1ac69a40','phase_changed','{"phase": "thinking"}',1.79608368904009056089e+09);
INSERT INTO "conversation_history" VALUES('approving',6,'run-7e923afb53d34547a7e1587b1ac69a40','activity_started','{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-783ab5296fd848179410055b17dc2c1f"}',1.79608368904492163653e+09);
INSERT INTO "conversation_history" VALUES('approving',7,'run-7e923afb53d34547a7e1587b1ac69a40','activity_completed','{"activity": "model", "turn": 1, "attempt": 1}',1.79608368904720902439e+09);
INSERT INTO "conversation_history" VALUES('approving',8,'run-7e923afb53d34547a7e1587b1ac69a40','id_recorded','{"id": "prop-b040308ff4234abe9ed31f1265e5375b"}',1.79608368904720902439e+09);
INSERT INTO "conversation_history" VALUES('approving',9,'run-7e923afb53d34547a7e1587b1ac69a40','phase_changed','{"phase": "awaiting_approval"}',1.79608368904720902439e+09);
INSERT INTO "conversation_history" VALUES('approving',10,'run-7e923afb53d34547a7e1587b1ac69a40','proposal_published','{"id": "prop-b040308ff4234abe9ed31f1265e5375b", "action": "refund", "deadline": 11796083689.047209}',1.79608368904720902439e+09);
INSERT INTO "conversation_history" VALUES('thinking',1,'run-2b7c2e4edece40b1abc36dacbad91281','run_started','{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}',1.79608368906257796285e+09);
INSERT INTO "conversation_history" VALUES('thinking',2,'run-2b7c2e4edece40b1abc36dacbad91281','signal_received','{"sequence": 1, "name": "message"}',1.7960836890661141872e+09);
INSERT INTO "conversation_history" VALUES('thinking',3,'run-2b7c2e4edece40b1abc36dacbad91281','signal_received','{"sequence": 2, "name": "message"}',1.79608368906824254988e+09);
INSERT INTO "conversation_history" VALUES('approving',11,'run-7e923afb53d34547a7e1587b1ac69a40','lease_expired','{"task": "approving/t1", "owner": "exec-783ab5296fd848179410055b17dc2c1f"}',1.79608368920323467252e+09);
INSERT INTO "conversation_history" VALUES('approving',12,'run-7e923afb53d34547a7e1587b1ac69a40','task_repaired','{"task": "approving/t1", "count": 1}',1.79608368920323467252e+09);
INSERT INTO "conversation_history" VALUES('thinking',4,'run-2b7c2e4edece40b1abc36dacbad91281','task_leased','{"task": "thinking/t1", "owner": "exec-ffdafc74bc2547daad4a8c0e8035b550"}',1.79608368923258471488e+09);
INSERT INTO "conversation_history" VALUES('approving',13,'run-7e923afb53d34547a7e1587b1ac69a40','task_leased','{"task": "approving/t1", "owner": "exec-ffdafc74bc2547daad4a8c0e8035b550"}',1.79608368923727440827e+09);
INSERT INTO "conversation_history" VALUES('thinking',5,'run-2b7c2e4edece40b1abc36dacbad91281','signal_applied','{"sequence": 1, "name": "message", "turn": 1}',1.79608368923947262765e+09);
INSERT INTO "conversation_history" VALUES('thinking',6,'run-2b7c2e4edece40b1abc36dacbad91281','phase_changed','{"phase": "thinking"}',1.79608368923947262765e+09);
INSERT INTO "conversation_history" VALUES('thinking',7,'run-2b7c2e4edece40b1abc36dacbad91281','activity_started','{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-ffdafc74bc2547daad4a8c0e8035b550"}',1.79608368924819970131e+09);
CREATE TABLE conversation_migrations (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "conversation_migrations" VALUES(1,'m0001_initial',1.79608368780041050914e+09);
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
INSERT INTO "conversation_records" VALUES('waiting:1','waiting','run-495371dbd6c34d71b4ca6596ebf94b81',1,'replied','Turn 1: you said ''Hello''.',NULL,NULL,1.79608368899563145635e+09);
CREATE TABLE conversation_refusals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id TEXT NOT NULL,
    name TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    sender TEXT,
    request_id TEXT,
    at DOUBLE PRECISION NOT NULL
);
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
INSERT INTO "conversation_runs" VALUES('waiting',1,'run-495371dbd6c34d71b4ca6596ebf94b81','open',NULL,'{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}',NULL,NULL,NULL,1.79608368794947433465e+09,NULL);
INSERT INTO "conversation_runs" VALUES('approving',1,'run-7e923afb53d34547a7e1587b1ac69a40','open',NULL,'{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}',NULL,NULL,NULL,1.79608368901075386996e+09,NULL);
INSERT INTO "conversation_runs" VALUES('thinking',1,'run-2b7c2e4edece40b1abc36dacbad91281','open',NULL,'{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}',NULL,NULL,NULL,1.79608368906133770937e+09,NULL);
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
INSERT INTO "conversation_signals" VALUES('waiting',1,'sig-5b8c37b0d2514ac9aedff91353ae2914','message','{"text": "Hello"}',NULL,NULL,NULL,'357534eac21aa4d2893b264d6bb17ce475b570396e03771f1bdcd6c086cf2ed0','run-495371dbd6c34d71b4ca6596ebf94b81',1.79608368795682859422e+09,'applied',NULL,'run-495371dbd6c34d71b4ca6596ebf94b81',1,1.79608368897808504107e+09);
INSERT INTO "conversation_signals" VALUES('approving',1,'sig-bf478bfcd83a4255b79f38c80a2ba1ea','message','{"text": "Please refund my order"}',NULL,NULL,NULL,'87919c0b732802c19985ac63817d6160660442d140f5e437ae5fdea3b10bd6d1','run-7e923afb53d34547a7e1587b1ac69a40',1.7960836890148396492e+09,'applied',NULL,'run-7e923afb53d34547a7e1587b1ac69a40',1,1.79608368904009056089e+09);
INSERT INTO "conversation_signals" VALUES('thinking',1,'sig-bcd6917d17db483982d66cc977ad0a89','message','{"text": "first"}',NULL,NULL,NULL,'8c0181f183da31d04aa8ad7b017bfeb050675650f6606c8f7b507a363d10bd79','run-2b7c2e4edece40b1abc36dacbad91281',1.7960836890661141872e+09,'applied',NULL,'run-2b7c2e4edece40b1abc36dacbad91281',1,1.79608368923947262765e+09);
INSERT INTO "conversation_signals" VALUES('thinking',2,'sig-e9765634d2254981ad28027c40570d59','message','{"text": "second"}',NULL,NULL,NULL,'7881b12502044eb437859a2e3d66cfd951fbe744ab7b33ef4d0b70b956dfbf9f','run-2b7c2e4edece40b1abc36dacbad91281',1.79608368906824254988e+09,'received',NULL,NULL,NULL,NULL);
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
INSERT INTO "conversation_turns" VALUES('waiting',1,'run-495371dbd6c34d71b4ca6596ebf94b81',1,1,1,0,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,'replied',1.79608368897808504107e+09,1.79608368900333881376e+09);
INSERT INTO "conversation_turns" VALUES('approving',1,'run-7e923afb53d34547a7e1587b1ac69a40',1,1,1,0,1,'Turn 1: a refund was proposed for ''Please refund my order''.','{"approved": "Turn 1: the refund was approved and issued for ''Please refund my order''.", "declined": "Turn 1: the refund was declined for ''Please refund my order''.", "timed_out": "Turn 1: nobody decided about the refund for ''Please refund my order'' in time."}','Turn 1: Please refund my order','refund','{"request": "Please refund my order"}',NULL,'prop-b040308ff4234abe9ed31f1265e5375b',1.17960836890472087863e+10,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1.79608368904009056089e+09,NULL);
INSERT INTO "conversation_turns" VALUES('thinking',1,'run-2b7c2e4edece40b1abc36dacbad91281',1,1,1,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL,1.79608368923947262765e+09,NULL);
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
INSERT INTO "conversations" VALUES('waiting','refund-desk','{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}',1,'run-495371dbd6c34d71b4ca6596ebf94b81','waiting_for_input',NULL,1,1,NULL,NULL,1.79608368900832867623e+09,1.17960836890083293918e+10,'Turn 1: Hello','waiting:1',0,0,0,2,11,NULL,1,NULL,NULL,NULL,0,0.0,NULL,1.79608368794947433465e+09,1.79608368900832867623e+09);
INSERT INTO "conversations" VALUES('approving','refund-desk','{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}',1,'run-7e923afb53d34547a7e1587b1ac69a40','awaiting_approval',NULL,0,0,1,'prop-b040308ff4234abe9ed31f1265e5375b',1.79608368904720902439e+09,1.17960836890472087863e+10,'',NULL,0,0,0,2,14,NULL,1,NULL,NULL,NULL,1,1.79608369020323467256e+09,NULL,1.79608368901075386996e+09,1.79608368925234627728e+09);
INSERT INTO "conversations" VALUES('thinking','refund-desk','{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}',1,'run-2b7c2e4edece40b1abc36dacbad91281','thinking',NULL,0,0,1,NULL,NULL,NULL,'',NULL,1,0,0,3,8,'thinking/t1',1,'e841da89e0c84eafb4230f6925cb7ea9','exec-ffdafc74bc2547daad4a8c0e8035b550',1.7960836890661141872e+09,0,0.0,NULL,1.79608368906133770937e+09,1.79608368924819970131e+09);
CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO "dbos_migrations" VALUES(125);
CREATE TABLE notifications (
    message_uuid TEXT NOT NULL DEFAULT (hex(randomblob(16))) PRIMARY KEY,
    destination_uuid TEXT NOT NULL,
    topic TEXT,
    message TEXT NOT NULL,
    created_at_epoch_ms INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000), "serialization" TEXT DEFAULT NULL, "consumed" BOOLEAN NOT NULL DEFAULT FALSE, consumed_by_function_id INTEGER,
    FOREIGN KEY (destination_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE "operation_outputs" (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL DEFAULT '',
    output TEXT,
    error TEXT,
    child_workflow_id TEXT,
    started_at_epoch_ms INTEGER,
    completed_at_epoch_ms INTEGER,
    serialization TEXT,
    application_name TEXT DEFAULT NULL,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    PRIMARY KEY (workflow_uuid, function_id)
);
INSERT INTO "operation_outputs" VALUES('waiting/t1',1,'take','"think"',NULL,NULL,1796083688972,1796083688982,'portable_json','headrace',1796083688000);
INSERT INTO "operation_outputs" VALUES('waiting/t1',2,'think','"reply"',NULL,NULL,1796083688985,1796083688992,'portable_json','headrace',1796083688000);
INSERT INTO "operation_outputs" VALUES('waiting/t1',3,'reply','"finish"',NULL,NULL,1796083688994,1796083689000,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('waiting/t1',4,'finish','"take"',NULL,NULL,1796083689002,1796083689005,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('waiting/t1',5,'take','"done"',NULL,NULL,1796083689007,1796083689010,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('approving/t1',1,'take','"think"',NULL,NULL,1796083689039,1796083689042,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('approving/t1',2,'think','"take"',NULL,NULL,1796083689044,1796083689048,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('thinking/t1',1,'take','"think"',NULL,NULL,1796083689234,1796083689245,'portable_json','headrace',1796083689000);
INSERT INTO "operation_outputs" VALUES('approving/t1',3,'take','"done"',NULL,NULL,1796083689242,1796083689254,'portable_json','headrace',1796083689000);
CREATE TABLE queues (
    queue_id TEXT PRIMARY KEY DEFAULT (hex(randomblob(16))),
    name TEXT NOT NULL UNIQUE,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec REAL,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    polling_interval_sec REAL NOT NULL DEFAULT 1.0,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
, "application_name" TEXT DEFAULT NULL, "partition_concurrency" INTEGER DEFAULT NULL, "partition_worker_concurrency" INTEGER DEFAULT NULL, "partition_rate_limit_max" INTEGER DEFAULT NULL, "partition_rate_limit_period_sec" REAL DEFAULT NULL);
INSERT INTO "queues" VALUES('1A72426FDEC44456B5A1B0BEB49A8738','conversations',NULL,64,NULL,NULL,1,0,0.03,1796083687000,1796083689184,'headrace',NULL,NULL,NULL,NULL);
CREATE TABLE streams (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL, function_id INTEGER NOT NULL DEFAULT 0, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key, "offset"),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_events (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid) 
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_events_history (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, function_id, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE workflow_input (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    inputs TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_input" VALUES('waiting/t1','{"namedArgs":{},"positionalArgs":["waiting","waiting/t1"]}',1796083687000);
INSERT INTO "workflow_input" VALUES('approving/t1','{"namedArgs":{},"positionalArgs":["approving","approving/t1"]}',1796083689000);
INSERT INTO "workflow_input" VALUES('thinking/t1','{"namedArgs":{},"positionalArgs":["thinking","thinking/t1"]}',1796083689000);
CREATE TABLE workflow_output (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    output TEXT,
    error TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000)
);
INSERT INTO "workflow_output" VALUES('waiting/t1','"done"',NULL,1796083689000);
INSERT INTO "workflow_output" VALUES('approving/t1','"done"',NULL,1796083689000);
CREATE TABLE workflow_schedules (
    schedule_id TEXT PRIMARY KEY,
    schedule_name TEXT NOT NULL UNIQUE,
    workflow_name TEXT NOT NULL,
    workflow_class_name TEXT,
    schedule TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'ACTIVE',
    context TEXT NOT NULL
, "last_fired_at" TEXT DEFAULT NULL, "automatic_backfill" BOOLEAN NOT NULL DEFAULT FALSE, "cron_timezone" TEXT DEFAULT NULL, "queue_name" TEXT DEFAULT NULL, "application_name" TEXT DEFAULT NULL);
CREATE TABLE workflow_status (
    workflow_uuid TEXT PRIMARY KEY,
    status TEXT,
    name TEXT,
    authenticated_user TEXT,
    assumed_role TEXT,
    authenticated_roles TEXT,
    request TEXT,
    output TEXT,
    error TEXT,
    executor_id TEXT,
    created_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    updated_at INTEGER NOT NULL DEFAULT (strftime('%s','now') * 1000),
    application_version TEXT,
    application_id TEXT,
    class_name TEXT DEFAULT NULL,
    config_name TEXT DEFAULT NULL,
    recovery_attempts INTEGER DEFAULT 0,
    queue_name TEXT,
    workflow_timeout_ms INTEGER,
    workflow_deadline_epoch_ms INTEGER,
    inputs TEXT,
    started_at_epoch_ms INTEGER,
    deduplication_id TEXT,
    priority INTEGER NOT NULL DEFAULT 0
, queue_partition_key TEXT, forked_from TEXT, "owner_xid" TEXT DEFAULT NULL, "parent_workflow_id" TEXT DEFAULT NULL, "serialization" TEXT DEFAULT NULL, "delay_until_epoch_ms" BIGINT DEFAULT NULL, "was_forked_from" BOOLEAN NOT NULL DEFAULT FALSE, "rate_limited" BOOLEAN NOT NULL DEFAULT FALSE, "completed_at" BIGINT, "attributes" TEXT, "schedule_name" TEXT, "debounce_deadline_epoch_ms" BIGINT DEFAULT NULL, "is_debounced" BOOLEAN NOT NULL DEFAULT FALSE, "application_name" TEXT DEFAULT NULL, "creator_xid" TEXT DEFAULT NULL);
INSERT INTO "workflow_status" VALUES('waiting/t1','SUCCESS','advance',NULL,NULL,NULL,NULL,NULL,NULL,'exec-783ab5296fd848179410055b17dc2c1f',1796083687000,1796083689000,'conversations-1',NULL,NULL,NULL,1,'conversations',NULL,NULL,NULL,1796083688000,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1796083689000,'null',NULL,NULL,0,'headrace','6c02dfaf-0ba0-49cb-87e4-31265fdfa114');
INSERT INTO "workflow_status" VALUES('approving/t1','SUCCESS','advance',NULL,NULL,NULL,NULL,NULL,NULL,'exec-ffdafc74bc2547daad4a8c0e8035b550',1796083689000,1796083689000,'conversations-1',NULL,NULL,NULL,1,'conversations',NULL,NULL,NULL,1796083689000,NULL,0,NULL,NULL,NULL,NULL,'portable_json',NULL,0,0,1796083689000,'null',NULL,NULL,0,'headrace','e6efb2ab-aeee-4109-8794-0f8a56b03ce0');
INSERT INTO "workflow_status" VALUES('thinking/t1','PENDING','advance',NULL,NULL,NULL,NULL,NULL,NULL,'exec-ffdafc74bc2547daad4a8c0e8035b550',1796083689000,1796083689000,'conversations-1',NULL,NULL,NULL,1,'conversations',NULL,NULL,NULL,1796083689000,NULL,0,NULL,NULL,'cfa7eeee-165e-4044-8e26-ab99daef0fbe',NULL,'portable_json',NULL,0,0,NULL,'null',NULL,NULL,0,'headrace','7558eb65-7035-4368-88e6-eb870ebdd4ab');
CREATE INDEX conversations_with_task ON conversations (task_retry_at) WHERE task_id IS NOT NULL;
CREATE INDEX conversations_waiting ON conversations (deadline)
    WHERE task_id IS NULL AND phase <> 'completed';
CREATE INDEX conversations_stranded ON conversations (id)
    WHERE task_id IS NULL AND CASE phase WHEN 'completed' THEN FALSE
    WHEN 'waiting_for_input' THEN buffered_messages > 0
    WHEN 'awaiting_approval' THEN buffered_decisions > 0 ELSE TRUE END;
CREATE INDEX conversations_by_age ON conversations (created_at, id);
CREATE INDEX conversation_signals_buffered
    ON conversation_signals (conversation_id, name, sequence) WHERE status = 'received';
CREATE INDEX conversation_records_of ON conversation_records (conversation_id, turn);
CREATE INDEX conversation_refusals_of ON conversation_refusals (conversation_id, id);
CREATE INDEX workflow_status_created_at_index ON workflow_status (created_at);
CREATE INDEX idx_workflow_topic ON notifications (destination_uuid, topic);
CREATE INDEX "idx_workflow_status_delayed" ON "workflow_status" ("delay_until_epoch_ms") WHERE status = 'DELAYED';
CREATE INDEX "idx_workflow_status_forked_from" ON "workflow_status" ("forked_from") WHERE "forked_from" IS NOT NULL;
CREATE INDEX "idx_workflow_status_parent_workflow_id" ON "workflow_status" ("parent_workflow_id") WHERE "parent_workflow_id" IS NOT NULL;
CREATE UNIQUE INDEX "uq_workflow_status_dedup_id" ON "workflow_status" ("queue_name", "deduplication_id") WHERE "deduplication_id" IS NOT NULL;
CREATE INDEX "idx_workflow_status_pending" ON "workflow_status" ("created_at") WHERE "status" = 'PENDING';
CREATE INDEX "idx_workflow_status_failed" ON "workflow_status" ("status", "created_at") WHERE "status" IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');
CREATE INDEX "idx_workflow_status_rate_limited" ON "workflow_status" ("queue_name", "started_at_epoch_ms") WHERE "rate_limited" = TRUE;
CREATE INDEX "idx_workflow_status_completed_at" ON "workflow_status" ("completed_at") WHERE "completed_at" IS NOT NULL;
CREATE INDEX "idx_workflow_status_started_at" ON "workflow_status" ("started_at_epoch_ms") WHERE "started_at_epoch_ms" IS NOT NULL;
CREATE INDEX "idx_workflow_status_schedule_name" ON "workflow_status" ("schedule_name") WHERE "schedule_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_owner_version"
    ON application_versions ("application_name", "version_name")
    WHERE "application_name" IS NOT NULL;
CREATE UNIQUE INDEX "uq_application_versions_unclaimed_version"
    ON application_versions ("version_name")
    WHERE "application_name" IS NULL;
CREATE INDEX idx_workflow_input_retention
    ON workflow_input (retention_timestamp);
CREATE INDEX idx_workflow_output_retention
    ON workflow_output (retention_timestamp);
CREATE INDEX idx_operation_outputs_retention
    ON operation_outputs (retention_timestamp);
CREATE INDEX "idx_workflow_status_in_flight_v2" ON "workflow_status" ("queue_name", "status", "priority", "created_at", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING');
CREATE INDEX "idx_workflow_status_partition_dequeue_v3" ON "workflow_status" ("queue_name", "status", "queue_partition_key", "priority", "created_at", "workflow_uuid", "application_name") WHERE "status" IN ('ENQUEUED', 'PENDING') AND "queue_partition_key" IS NOT NULL;
CREATE INDEX "idx_operation_outputs_completed_at_function_name_v2" ON "operation_outputs" ("completed_at_epoch_ms", "function_name", "application_name");
CREATE INDEX "idx_workflow_status_deadline" ON "workflow_status" ("workflow_deadline_epoch_ms") WHERE "status" IN ('ENQUEUED', 'PENDING', 'DELAYED') AND "workflow_deadline_epoch_ms" IS NOT NULL;
CREATE INDEX "idx_application_versions_timestamp" ON "application_versions" ("version_timestamp" DESC);
CREATE INDEX "idx_application_versions_owner_timestamp" ON "application_versions" ("application_name", "version_timestamp" DESC);
DELETE FROM "sqlite_sequence";
COMMIT;

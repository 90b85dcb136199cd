SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA dbos;

CREATE FUNCTION dbos.enqueue_workflow(workflow_name text, queue_name text, positional_args json[] DEFAULT ARRAY[]::json[], named_args json DEFAULT '{}'::json, class_name text DEFAULT NULL::text, config_name text DEFAULT NULL::text, workflow_id text DEFAULT NULL::text, app_version text DEFAULT NULL::text, timeout_ms bigint DEFAULT NULL::bigint, deadline_epoch_ms bigint DEFAULT NULL::bigint, deduplication_id text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, queue_partition_key text DEFAULT NULL::text, authenticated_user text DEFAULT NULL::text, authenticated_roles text DEFAULT NULL::text, delay_until_epoch_ms bigint DEFAULT NULL::bigint, application_name text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_workflow_id TEXT;
    v_serialized_inputs TEXT;
    v_owner_xid TEXT;
    v_now BIGINT;
    v_recovery_attempts INT4 := 0;
    v_priority INT4;
    v_status TEXT;
BEGIN

    -- Validate required parameters
    IF workflow_name IS NULL OR workflow_name = '' THEN
        RAISE EXCEPTION 'Workflow name cannot be null or empty';
    END IF;
    IF queue_name IS NULL OR queue_name = '' THEN
        RAISE EXCEPTION 'Queue name cannot be null or empty';
    END IF;
    IF named_args IS NOT NULL AND jsonb_typeof(named_args::jsonb) != 'object' THEN
        RAISE EXCEPTION 'Named args must be a JSON object';
    END IF;
    IF workflow_id IS NOT NULL AND workflow_id = '' THEN
        RAISE EXCEPTION 'Workflow ID cannot be an empty string if provided.';
    END IF;
    IF delay_until_epoch_ms IS NOT NULL AND delay_until_epoch_ms < 0 THEN
        RAISE EXCEPTION 'delay_until_epoch_ms must be >= 0';
    END IF;

    v_workflow_id := COALESCE(workflow_id, gen_random_uuid()::TEXT);
    v_owner_xid := gen_random_uuid()::TEXT;
    v_priority := COALESCE(priority, 0);
    v_serialized_inputs := json_build_object(
        'positionalArgs', positional_args,
        'namedArgs', named_args
    )::TEXT;
    v_now := EXTRACT(epoch FROM now()) * 1000;
    v_status := CASE WHEN delay_until_epoch_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END;

    INSERT INTO "dbos".workflow_status (
        workflow_uuid, status,
        name, class_name, config_name,
        queue_name, deduplication_id, priority, queue_partition_key,
        application_version,
        created_at, updated_at, recovery_attempts,
        workflow_timeout_ms, workflow_deadline_epoch_ms,
        parent_workflow_id, owner_xid, serialization,
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    ) VALUES (
        v_workflow_id, v_status,
        workflow_name, class_name, config_name,
        queue_name, deduplication_id, v_priority, queue_partition_key,
        app_version,
        v_now, v_now, v_recovery_attempts,
        timeout_ms, deadline_epoch_ms,
        NULL, v_owner_xid, 'portable_json',
        authenticated_user, authenticated_roles,
        delay_until_epoch_ms, application_name
    )
    ON CONFLICT (workflow_uuid)
    DO UPDATE SET
        updated_at = EXCLUDED.updated_at;

    INSERT INTO "dbos".workflow_input (
        workflow_uuid, inputs, retention_timestamp
    ) VALUES (
        v_workflow_id, v_serialized_inputs, v_now
    )
    ON CONFLICT (workflow_uuid) DO NOTHING;

    RETURN v_workflow_id;

EXCEPTION
    WHEN unique_violation THEN
        RAISE EXCEPTION 'DBOS queue duplicated'
            USING DETAIL = format('Workflow %s with queue %s and deduplication ID %s already exists', v_workflow_id, queue_name, deduplication_id),
                ERRCODE = 'unique_violation';
END;
$$;

CREATE FUNCTION dbos.send_message(destination_id text, message json, topic text DEFAULT NULL::text, message_id text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    v_topic TEXT := COALESCE(topic, '__null__topic__');
    v_message_id TEXT := COALESCE(message_id, gen_random_uuid()::TEXT);
BEGIN
    INSERT INTO "dbos".notifications (
        destination_uuid, topic, message, message_uuid, serialization
    ) VALUES (
        destination_id, v_topic, message, v_message_id, 'portable_json'
    )
    ON CONFLICT (message_uuid) DO NOTHING;
EXCEPTION
    WHEN foreign_key_violation THEN
        RAISE EXCEPTION 'DBOS non-existent workflow'
            USING DETAIL = format('Destination workflow %s does not exist', destination_id),
                ERRCODE = 'foreign_key_violation';
END;
$$;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE dbos.application_versions (
    version_id text NOT NULL,
    version_name text NOT NULL,
    version_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text
);

CREATE TABLE dbos.dbos_migrations (
    version bigint NOT NULL
);

CREATE TABLE dbos.event_dispatch_kv (
    service_name text NOT NULL,
    workflow_fn_name text NOT NULL,
    key text NOT NULL,
    value text,
    update_seq numeric(38,0),
    update_time numeric(38,15)
);

CREATE TABLE dbos.notifications (
    message_uuid text DEFAULT gen_random_uuid() NOT NULL,
    destination_uuid text NOT NULL,
    topic text,
    message text NOT NULL,
    created_at_epoch_ms bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    serialization text,
    consumed boolean DEFAULT false NOT NULL,
    consumed_by_function_id integer
);

CREATE TABLE dbos.operation_outputs (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    function_name text DEFAULT ''::text NOT NULL,
    output text,
    error text,
    child_workflow_id text,
    started_at_epoch_ms bigint,
    completed_at_epoch_ms bigint,
    serialization text,
    application_name text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.queues (
    queue_id text DEFAULT (gen_random_uuid())::text NOT NULL,
    name text NOT NULL,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec double precision,
    priority_enabled boolean DEFAULT false NOT NULL,
    partition_queue boolean DEFAULT false NOT NULL,
    polling_interval_sec double precision DEFAULT 1.0 NOT NULL,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_name text,
    partition_concurrency integer,
    partition_worker_concurrency integer,
    partition_rate_limit_max integer,
    partition_rate_limit_period_sec double precision
);

CREATE TABLE dbos.streams (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    "offset" integer NOT NULL,
    function_id integer DEFAULT 0 NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_events (
    workflow_uuid text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_events_history (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text
);

CREATE TABLE dbos.workflow_input (
    workflow_uuid text NOT NULL,
    inputs text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.workflow_output (
    workflow_uuid text NOT NULL,
    output text,
    error text,
    retention_timestamp bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL
);

CREATE TABLE dbos.workflow_schedules (
    schedule_id text NOT NULL,
    schedule_name text NOT NULL,
    workflow_name text NOT NULL,
    workflow_class_name text,
    schedule text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    context text NOT NULL,
    last_fired_at text,
    automatic_backfill boolean DEFAULT false NOT NULL,
    cron_timezone text,
    queue_name text,
    application_name text
);

CREATE TABLE dbos.workflow_status (
    workflow_uuid text NOT NULL,
    status text,
    name text,
    authenticated_user text,
    assumed_role text,
    authenticated_roles text,
    request text,
    output text,
    error text,
    executor_id text,
    created_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    updated_at bigint DEFAULT ((EXTRACT(epoch FROM now()) * 1000.0))::bigint NOT NULL,
    application_version text,
    application_id text,
    class_name character varying(255) DEFAULT NULL::character varying,
    config_name character varying(255) DEFAULT NULL::character varying,
    recovery_attempts bigint DEFAULT 0,
    queue_name text,
    workflow_timeout_ms bigint,
    workflow_deadline_epoch_ms bigint,
    inputs text,
    started_at_epoch_ms bigint,
    deduplication_id text,
    priority integer DEFAULT 0 NOT NULL,
    queue_partition_key text,
    forked_from text,
    owner_xid text,
    parent_workflow_id text,
    serialization text,
    delay_until_epoch_ms bigint,
    was_forked_from boolean DEFAULT false NOT NULL,
    rate_limited boolean DEFAULT false NOT NULL,
    completed_at bigint,
    attributes jsonb,
    schedule_name text,
    debounce_deadline_epoch_ms bigint,
    is_debounced boolean DEFAULT false NOT NULL,
    application_name text,
    creator_xid text
);

CREATE TABLE public.conversation_actions (
    reference text NOT NULL,
    conversation_id text NOT NULL,
    turn integer NOT NULL,
    name text NOT NULL,
    arguments text NOT NULL,
    applied_at double precision NOT NULL
);

CREATE TABLE public.conversation_duties (
    name text NOT NULL,
    holder text,
    expires_at double precision NOT NULL,
    done_at double precision NOT NULL
);

CREATE TABLE public.conversation_executors (
    id text NOT NULL,
    about text NOT NULL,
    started_at double precision NOT NULL,
    expires_at double precision NOT NULL
);

CREATE TABLE public.conversation_history (
    conversation_id text NOT NULL,
    number integer NOT NULL,
    run_id text NOT NULL,
    type text NOT NULL,
    data text NOT NULL,
    at double precision NOT NULL
);

CREATE TABLE public.conversation_migrations (
    number integer NOT NULL,
    name text NOT NULL,
    at double precision NOT NULL
);

CREATE TABLE public.conversation_records (
    reference text NOT NULL,
    conversation_id text NOT NULL,
    run_id text NOT NULL,
    turn integer NOT NULL,
    outcome text NOT NULL,
    text text NOT NULL,
    action text,
    action_reference text,
    created_at double precision NOT NULL
);

CREATE TABLE public.conversation_refusals (
    id integer NOT NULL,
    conversation_id text NOT NULL,
    name text NOT NULL,
    outcome text NOT NULL,
    reason text,
    sender text,
    request_id text,
    at double precision NOT NULL
);

ALTER TABLE public.conversation_refusals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.conversation_refusals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.conversation_runs (
    conversation_id text NOT NULL,
    generation integer NOT NULL,
    run_id text NOT NULL,
    status text NOT NULL,
    reason text,
    state_in text NOT NULL,
    result text,
    previous_run text,
    next_run text,
    started_at double precision NOT NULL,
    closed_at double precision
);

CREATE TABLE public.conversation_signals (
    conversation_id text NOT NULL,
    sequence integer NOT NULL,
    signal_id text NOT NULL,
    name text NOT NULL,
    arguments text NOT NULL,
    target_run text,
    sender text,
    request_id text,
    fingerprint text NOT NULL,
    accepted_run text NOT NULL,
    received_at double precision NOT NULL,
    status text NOT NULL,
    reason text,
    applied_run text,
    applied_turn integer,
    closed_at double precision
);

CREATE TABLE public.conversation_turns (
    conversation_id text NOT NULL,
    turn integer NOT NULL,
    run_id text NOT NULL,
    generation integer NOT NULL,
    message_sequence integer NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    outcome_recorded integer NOT NULL,
    reply text,
    replies text,
    next_summary text,
    action_name text,
    action_arguments text,
    action_text text,
    proposal_id text,
    proposal_deadline double precision,
    action_attempts integer NOT NULL,
    action_failures integer NOT NULL,
    decision text,
    decision_sequence integer,
    reviewer text,
    decided_by text,
    error text,
    outcome text,
    started_at double precision NOT NULL,
    ended_at double precision
);

CREATE TABLE public.conversations (
    id text NOT NULL,
    profile text NOT NULL,
    options text NOT NULL,
    generation integer NOT NULL,
    run_id text NOT NULL,
    phase text NOT NULL,
    closed_reason text,
    turn_count integer NOT NULL,
    turns_this_run integer NOT NULL,
    turn integer,
    proposal_id text,
    wait_since double precision,
    deadline double precision,
    summary text NOT NULL,
    latest_reply_reference text,
    buffered_messages integer NOT NULL,
    buffered_decisions integer NOT NULL,
    cancel_requested integer NOT NULL,
    next_sequence integer NOT NULL,
    next_event integer NOT NULL,
    task_id text,
    task_number integer NOT NULL,
    task_claim text,
    task_owner text,
    task_enqueued_at double precision,
    task_repairs integer NOT NULL,
    task_retry_at double precision NOT NULL,
    started_by text,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL
);

INSERT INTO dbos.application_versions VALUES ('fd960dc2-b36b-498f-b2a8-280e8aa588d4', 'conversations-1', 1796096151629, 1796096151629, 'headrace');

INSERT INTO dbos.dbos_migrations VALUES (125);

INSERT INTO dbos.operation_outputs VALUES ('waiting/t1', 1, 'take', '"think"', NULL, NULL, 1796096152725, 1796096152769, 'portable_json', 'headrace', 1796096152772);
INSERT INTO dbos.operation_outputs VALUES ('waiting/t1', 2, 'think', '"reply"', NULL, NULL, 1796096152774, 1796096152811, 'portable_json', 'headrace', 1796096152813);
INSERT INTO dbos.operation_outputs VALUES ('waiting/t1', 3, 'reply', '"finish"', NULL, NULL, 1796096152815, 1796096152823, 'portable_json', 'headrace', 1796096152826);
INSERT INTO dbos.operation_outputs VALUES ('waiting/t1', 4, 'finish', '"take"', NULL, NULL, 1796096152832, 1796096152846, 'portable_json', 'headrace', 1796096152848);
INSERT INTO dbos.operation_outputs VALUES ('waiting/t1', 5, 'take', '"done"', NULL, NULL, 1796096152850, 1796096152860, 'portable_json', 'headrace', 1796096152861);
INSERT INTO dbos.operation_outputs VALUES ('approving/t1', 1, 'take', '"think"', NULL, NULL, 1796096152911, 1796096152921, 'portable_json', 'headrace', 1796096152926);
INSERT INTO dbos.operation_outputs VALUES ('approving/t1', 2, 'think', '"take"', NULL, NULL, 1796096152935, 1796096152952, 'portable_json', 'headrace', 1796096152958);
INSERT INTO dbos.operation_outputs VALUES ('thinking/t1', 1, 'take', '"think"', NULL, NULL, 1796096153516, 1796096153536, 'portable_json', 'headrace', 1796096153539);

INSERT INTO dbos.queues VALUES ('e69ce752-24a9-473e-ae37-4c141ca1c4e3', 'conversations', NULL, 64, NULL, NULL, true, false, 0.03, 1796096151662, 1796096153411, 'headrace', NULL, NULL, NULL, NULL);

INSERT INTO dbos.workflow_input VALUES ('waiting/t1', '{"namedArgs":{},"positionalArgs":["waiting","waiting/t1"]}', 1796096151862);
INSERT INTO dbos.workflow_input VALUES ('approving/t1', '{"namedArgs":{},"positionalArgs":["approving","approving/t1"]}', 1796096152867);
INSERT INTO dbos.workflow_input VALUES ('thinking/t1', '{"namedArgs":{},"positionalArgs":["thinking","thinking/t1"]}', 1796096153002);

INSERT INTO dbos.workflow_output VALUES ('waiting/t1', '"done"', NULL, 1796096152865);

INSERT INTO dbos.workflow_status VALUES ('waiting/t1', 'SUCCESS', 'advance', NULL, NULL, NULL, NULL, NULL, NULL, 'exec-ae78d9e619f847b097aeeeae0eb4173f', 1796096151862, 1796096152865, 'conversations-1', NULL, NULL, NULL, 1, 'conversations', NULL, NULL, NULL, 1796096152694, NULL, 0, NULL, NULL, NULL, NULL, 'portable_json', NULL, false, false, 1796096152865, 'null', NULL, NULL, false, 'headrace', '75e542cf-80e5-4675-b5db-4113fa327a76');
INSERT INTO dbos.workflow_status VALUES ('approving/t1', 'PENDING', 'advance', NULL, NULL, NULL, NULL, NULL, NULL, 'exec-ae78d9e619f847b097aeeeae0eb4173f', 1796096152867, 1796096152886, 'conversations-1', NULL, NULL, NULL, 1, 'conversations', NULL, NULL, NULL, 1796096152886, NULL, 0, NULL, NULL, '6a291d23-a9d2-4ef3-9604-25b95dd393c5', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'headrace', 'c2be9967-881d-42db-b81e-8c1dd1a8b8cb');
INSERT INTO dbos.workflow_status VALUES ('thinking/t1', 'PENDING', 'advance', NULL, NULL, NULL, NULL, NULL, NULL, 'exec-f6cc5b6006b343eab086c8f3c22fb651', 1796096153002, 1796096153474, 'conversations-1', NULL, NULL, NULL, 1, 'conversations', NULL, NULL, NULL, 1796096153474, NULL, 0, NULL, NULL, 'cecad3f7-06a2-4158-bf47-33020d6ea1e1', NULL, 'portable_json', NULL, false, false, NULL, 'null', NULL, NULL, false, 'headrace', '7077df99-6db2-4dc7-8cf7-d92bd913ac4e');

INSERT INTO public.conversation_duties VALUES ('repair', NULL, 0, 1796096153.493904);
INSERT INTO public.conversation_duties VALUES ('retention', NULL, 0, 1796096153.51488);

INSERT INTO public.conversation_executors VALUES ('exec-ae78d9e619f847b097aeeeae0eb4173f', 'host pid 1', 1796096151.265424, 1796096153.592769);
INSERT INTO public.conversation_executors VALUES ('exec-f6cc5b6006b343eab086c8f3c22fb651', 'host pid 1', 1796096153.36242, 1796096154.36242);

INSERT INTO public.conversation_history VALUES ('waiting', 1, 'run-74df8212a8be498d84b322b94c36e51d', 'run_started', '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}', 1796096151.825729);
INSERT INTO public.conversation_history VALUES ('approving', 1, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'run_started', '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}', 1796096151.84819);
INSERT INTO public.conversation_history VALUES ('thinking', 1, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'run_started', '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null}', 1796096151.851125);
INSERT INTO public.conversation_history VALUES ('waiting', 2, 'run-74df8212a8be498d84b322b94c36e51d', 'signal_received', '{"sequence": 1, "name": "message"}', 1796096151.861734);
INSERT INTO public.conversation_history VALUES ('waiting', 3, 'run-74df8212a8be498d84b322b94c36e51d', 'task_leased', '{"task": "waiting/t1", "owner": "exec-ae78d9e619f847b097aeeeae0eb4173f"}', 1796096152.722464);
INSERT INTO public.conversation_history VALUES ('waiting', 4, 'run-74df8212a8be498d84b322b94c36e51d', 'signal_applied', '{"sequence": 1, "name": "message", "turn": 1}', 1796096152.741174);
INSERT INTO public.conversation_history VALUES ('waiting', 5, 'run-74df8212a8be498d84b322b94c36e51d', 'phase_changed', '{"phase": "thinking"}', 1796096152.741174);
INSERT INTO public.conversation_history VALUES ('waiting', 6, 'run-74df8212a8be498d84b322b94c36e51d', 'activity_started', '{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-ae78d9e619f847b097aeeeae0eb4173f"}', 1796096152.77971);
INSERT INTO public.conversation_history VALUES ('waiting', 7, 'run-74df8212a8be498d84b322b94c36e51d', 'activity_completed', '{"activity": "model", "turn": 1, "attempt": 1}', 1796096152.803605);
INSERT INTO public.conversation_history VALUES ('waiting', 8, 'run-74df8212a8be498d84b322b94c36e51d', 'phase_changed', '{"phase": "recording_reply"}', 1796096152.803605);
INSERT INTO public.conversation_history VALUES ('waiting', 9, 'run-74df8212a8be498d84b322b94c36e51d', 'reply_recorded', '{"reference": "waiting:1", "turn": 1, "outcome": "replied"}', 1796096152.819053);
INSERT INTO public.conversation_history VALUES ('waiting', 10, 'run-74df8212a8be498d84b322b94c36e51d', 'phase_changed', '{"phase": "waiting_for_input"}', 1796096152.839926);
INSERT INTO public.conversation_history VALUES ('approving', 2, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'signal_received', '{"sequence": 1, "name": "message"}', 1796096152.866891);
INSERT INTO public.conversation_history VALUES ('approving', 3, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'task_leased', '{"task": "approving/t1", "owner": "exec-ae78d9e619f847b097aeeeae0eb4173f"}', 1796096152.910053);
INSERT INTO public.conversation_history VALUES ('approving', 4, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'signal_applied', '{"sequence": 1, "name": "message", "turn": 1}', 1796096152.914961);
INSERT INTO public.conversation_history VALUES ('approving', 5, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'phase_changed', '{"phase": "thinking"}', 1796096152.914961);
INSERT INTO public.conversation_history VALUES ('approving', 6, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'activity_started', '{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-ae78d9e619f847b097aeeeae0eb4173f"}', 1796096152.94132);
INSERT INTO public.conversation_history VALUES ('approving', 7, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'activity_completed', '{"activity": "model", "turn": 1, "attempt": 1}', 1796096152.944876);
INSERT INTO public.conversation_history VALUES ('approving', 8, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'id_recorded', '{"id": "prop-000efed9e5274c2c837409cf653b93d0"}', 1796096152.944876);
INSERT INTO public.conversation_history VALUES ('approving', 9, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'phase_changed', '{"phase": "awaiting_approval"}', 1796096152.944876);
INSERT INTO public.conversation_history VALUES ('approving', 10, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'proposal_published', '{"id": "prop-000efed9e5274c2c837409cf653b93d0", "action": "refund", "deadline": 11796096152.944876}', 1796096152.944876);
INSERT INTO public.conversation_history VALUES ('thinking', 2, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'signal_received', '{"sequence": 1, "name": "message"}', 1796096153.002791);
INSERT INTO public.conversation_history VALUES ('thinking', 3, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'signal_received', '{"sequence": 2, "name": "message"}', 1796096153.01336);
INSERT INTO public.conversation_history VALUES ('thinking', 4, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'task_leased', '{"task": "thinking/t1", "owner": "exec-f6cc5b6006b343eab086c8f3c22fb651"}', 1796096153.513655);
INSERT INTO public.conversation_history VALUES ('thinking', 5, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'signal_applied', '{"sequence": 1, "name": "message", "turn": 1}', 1796096153.522691);
INSERT INTO public.conversation_history VALUES ('thinking', 6, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'phase_changed', '{"phase": "thinking"}', 1796096153.522691);
INSERT INTO public.conversation_history VALUES ('thinking', 7, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'activity_started', '{"activity": "model", "turn": 1, "attempt": 1, "worker": "exec-f6cc5b6006b343eab086c8f3c22fb651"}', 1796096153.554769);

INSERT INTO public.conversation_migrations VALUES (1, 'm0001_initial', 1796096151.148844);

INSERT INTO public.conversation_records VALUES ('waiting:1', 'waiting', 'run-74df8212a8be498d84b322b94c36e51d', 1, 'replied', 'Turn 1: you said ''Hello''.', NULL, NULL, 1796096152.819053);

INSERT INTO public.conversation_runs VALUES ('waiting', 1, 'run-74df8212a8be498d84b322b94c36e51d', 'open', NULL, '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}', NULL, NULL, NULL, 1796096151.797508, NULL);
INSERT INTO public.conversation_runs VALUES ('approving', 1, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'open', NULL, '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}', NULL, NULL, NULL, 1796096151.846135, NULL);
INSERT INTO public.conversation_runs VALUES ('thinking', 1, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'open', NULL, '{"generation": 1, "turn_count": 0, "summary": "", "latest_reply_reference": null, "options": {"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}}', NULL, NULL, NULL, 1796096151.849671, NULL);

INSERT INTO public.conversation_signals VALUES ('waiting', 1, 'sig-e2117ec6ad7c4201a1b1e64ec9de781e', 'message', '{"text": "Hello"}', NULL, NULL, NULL, '357534eac21aa4d2893b264d6bb17ce475b570396e03771f1bdcd6c086cf2ed0', 'run-74df8212a8be498d84b322b94c36e51d', 1796096151.861734, 'applied', NULL, 'run-74df8212a8be498d84b322b94c36e51d', 1, 1796096152.741174);
INSERT INTO public.conversation_signals VALUES ('approving', 1, 'sig-9180caed0cec49e89a7648470c1d4986', 'message', '{"text": "Please refund my order"}', NULL, NULL, NULL, '87919c0b732802c19985ac63817d6160660442d140f5e437ae5fdea3b10bd6d1', 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 1796096152.866891, 'applied', NULL, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 1, 1796096152.914961);
INSERT INTO public.conversation_signals VALUES ('thinking', 2, 'sig-5ae7d5b315aa44698aa2f508b6a8a3f1', 'message', '{"text": "second"}', NULL, NULL, NULL, '7881b12502044eb437859a2e3d66cfd951fbe744ab7b33ef4d0b70b956dfbf9f', 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 1796096153.01336, 'received', NULL, NULL, NULL, NULL);
INSERT INTO public.conversation_signals VALUES ('thinking', 1, 'sig-b8109971eb844f8da259c749b5ffe89d', 'message', '{"text": "first"}', NULL, NULL, NULL, '8c0181f183da31d04aa8ad7b017bfeb050675650f6606c8f7b507a363d10bd79', 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 1796096153.002791, 'applied', NULL, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 1, 1796096153.522691);

INSERT INTO public.conversation_turns VALUES ('waiting', 1, 'run-74df8212a8be498d84b322b94c36e51d', 1, 1, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, 'replied', 1796096152.741174, 1796096152.839926);
INSERT INTO public.conversation_turns VALUES ('approving', 1, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 1, 1, 1, 0, 1, 'Turn 1: a refund was proposed for ''Please refund my order''.', '{"approved": "Turn 1: the refund was approved and issued for ''Please refund my order''.", "declined": "Turn 1: the refund was declined for ''Please refund my order''.", "timed_out": "Turn 1: nobody decided about the refund for ''Please refund my order'' in time."}', 'Turn 1: Please refund my order', 'refund', '{"request": "Please refund my order"}', NULL, 'prop-000efed9e5274c2c837409cf653b93d0', 11796096152.944876, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1796096152.914961, NULL);
INSERT INTO public.conversation_turns VALUES ('thinking', 1, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 1, 1, 1, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1796096153.522691, NULL);

INSERT INTO public.conversations VALUES ('thinking', 'refund-desk', '{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}', 1, 'run-e04cd8a173c24922b1cc9a3dcb6a8092', 'thinking', NULL, 0, 0, 1, NULL, NULL, NULL, '', NULL, 1, 0, 0, 3, 8, 'thinking/t1', 1, '62fb27d7c29046be8754441a8b4f73c4', 'exec-f6cc5b6006b343eab086c8f3c22fb651', 1796096153.002791, 0, 0, NULL, 1796096151.849671, 1796096153.554769);
INSERT INTO public.conversations VALUES ('waiting', 'refund-desk', '{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}', 1, 'run-74df8212a8be498d84b322b94c36e51d', 'waiting_for_input', NULL, 1, 1, NULL, NULL, 1796096152.853334, 11796096152.853334, 'Turn 1: Hello', 'waiting:1', 0, 0, 0, 2, 11, NULL, 1, NULL, NULL, NULL, 0, 1796096153.1213, NULL, 1796096151.797508, 1796096152.853334);
INSERT INTO public.conversations VALUES ('approving', 'refund-desk', '{"turns_per_run": 2, "inactivity_seconds": 10000000000, "decision_timeout_seconds": 10000000000, "summary_max_chars": 2000}', 1, 'run-dfdbf0e9751d4857b14b6e6dadd45eb5', 'awaiting_approval', NULL, 0, 0, 1, 'prop-000efed9e5274c2c837409cf653b93d0', 1796096152.944876, 11796096152.944876, '', NULL, 0, 0, 0, 2, 11, 'approving/t1', 1, 'c4bc34c7e6404cf9a254bd80af3293e0', 'exec-ae78d9e619f847b097aeeeae0eb4173f', 1796096152.866891, 0, 0, NULL, 1796096151.846135, 1796096152.944876);

SELECT pg_catalog.setval('public.conversation_refusals_id_seq', 1, false);

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_pkey PRIMARY KEY (version_id);

ALTER TABLE ONLY dbos.application_versions
    ADD CONSTRAINT application_versions_version_name_key UNIQUE (version_name);

ALTER TABLE ONLY dbos.dbos_migrations
    ADD CONSTRAINT dbos_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY dbos.event_dispatch_kv
    ADD CONSTRAINT event_dispatch_kv_pkey PRIMARY KEY (service_name, workflow_fn_name, key);

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (message_uuid);

ALTER TABLE ONLY dbos.operation_outputs
    ADD CONSTRAINT operation_outputs_pkey PRIMARY KEY (workflow_uuid, function_id);

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY dbos.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue_id);

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (workflow_uuid, key, "offset");

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_pkey PRIMARY KEY (workflow_uuid, function_id, key);

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_pkey PRIMARY KEY (workflow_uuid, key);

ALTER TABLE ONLY dbos.workflow_input
    ADD CONSTRAINT workflow_input_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY dbos.workflow_output
    ADD CONSTRAINT workflow_output_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY dbos.workflow_schedules
    ADD CONSTRAINT workflow_schedules_schedule_name_key UNIQUE (schedule_name);

ALTER TABLE ONLY dbos.workflow_status
    ADD CONSTRAINT workflow_status_pkey PRIMARY KEY (workflow_uuid);

ALTER TABLE ONLY public.conversation_actions
    ADD CONSTRAINT conversation_actions_pkey PRIMARY KEY (reference);

ALTER TABLE ONLY public.conversation_duties
    ADD CONSTRAINT conversation_duties_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.conversation_executors
    ADD CONSTRAINT conversation_executors_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.conversation_history
    ADD CONSTRAINT conversation_history_pkey PRIMARY KEY (conversation_id, number);

ALTER TABLE ONLY public.conversation_migrations
    ADD CONSTRAINT conversation_migrations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.conversation_records
    ADD CONSTRAINT conversation_records_pkey PRIMARY KEY (reference);

ALTER TABLE ONLY public.conversation_refusals
    ADD CONSTRAINT conversation_refusals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.conversation_runs
    ADD CONSTRAINT conversation_runs_pkey PRIMARY KEY (conversation_id, generation);

ALTER TABLE ONLY public.conversation_runs
    ADD CONSTRAINT conversation_runs_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.conversation_signals
    ADD CONSTRAINT conversation_signals_pkey PRIMARY KEY (conversation_id, sequence);

ALTER TABLE ONLY public.conversation_signals
    ADD CONSTRAINT conversation_signals_request UNIQUE (conversation_id, request_id);

ALTER TABLE ONLY public.conversation_signals
    ADD CONSTRAINT conversation_signals_signal_id_key UNIQUE (signal_id);

ALTER TABLE ONLY public.conversation_turns
    ADD CONSTRAINT conversation_turns_pkey PRIMARY KEY (conversation_id, turn);

ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (id);

CREATE INDEX idx_application_versions_owner_timestamp ON dbos.application_versions USING btree (application_name, version_timestamp DESC);

CREATE INDEX idx_application_versions_timestamp ON dbos.application_versions USING btree (version_timestamp DESC);

CREATE INDEX idx_operation_outputs_completed_at_function_name_v2 ON dbos.operation_outputs USING btree (completed_at_epoch_ms, function_name) INCLUDE (application_name);

CREATE INDEX idx_operation_outputs_retention ON dbos.operation_outputs USING btree (retention_timestamp);

CREATE INDEX idx_workflow_input_retention ON dbos.workflow_input USING btree (retention_timestamp);

CREATE INDEX idx_workflow_output_retention ON dbos.workflow_output USING btree (retention_timestamp);

CREATE INDEX idx_workflow_status_attributes ON dbos.workflow_status USING gin (attributes) WHERE (attributes IS NOT NULL);

CREATE INDEX idx_workflow_status_completed_at ON dbos.workflow_status USING btree (completed_at) WHERE (completed_at IS NOT NULL);

CREATE INDEX idx_workflow_status_deadline ON dbos.workflow_status USING btree (workflow_deadline_epoch_ms) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text, 'DELAYED'::text])) AND (workflow_deadline_epoch_ms IS NOT NULL));

CREATE INDEX idx_workflow_status_delayed ON dbos.workflow_status USING btree (delay_until_epoch_ms) WHERE (status = 'DELAYED'::text);

CREATE INDEX idx_workflow_status_failed ON dbos.workflow_status USING btree (status, created_at) WHERE (status = ANY (ARRAY['ERROR'::text, 'CANCELLED'::text, 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'::text]));

CREATE INDEX idx_workflow_status_forked_from ON dbos.workflow_status USING btree (forked_from) WHERE (forked_from IS NOT NULL);

CREATE INDEX idx_workflow_status_in_flight_v2 ON dbos.workflow_status USING btree (queue_name, status, priority, created_at) INCLUDE (application_name) WHERE (status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text]));

CREATE INDEX idx_workflow_status_parent_workflow_id ON dbos.workflow_status USING btree (parent_workflow_id) WHERE (parent_workflow_id IS NOT NULL);

CREATE INDEX idx_workflow_status_partition_dequeue_v3 ON dbos.workflow_status USING btree (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid) INCLUDE (application_name) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text])) AND (queue_partition_key IS NOT NULL));

CREATE INDEX idx_workflow_status_pending ON dbos.workflow_status USING btree (created_at) WHERE (status = 'PENDING'::text);

CREATE INDEX idx_workflow_status_rate_limited ON dbos.workflow_status USING btree (queue_name, started_at_epoch_ms) WHERE (rate_limited = true);

CREATE INDEX idx_workflow_status_schedule_name ON dbos.workflow_status USING btree (schedule_name) WHERE (schedule_name IS NOT NULL);

CREATE INDEX idx_workflow_status_started_at ON dbos.workflow_status USING btree (started_at_epoch_ms) WHERE (started_at_epoch_ms IS NOT NULL);

CREATE INDEX idx_workflow_topic ON dbos.notifications USING btree (destination_uuid, topic);

CREATE UNIQUE INDEX uq_application_versions_owner_version ON dbos.application_versions USING btree (application_name, version_name) WHERE (application_name IS NOT NULL);

CREATE UNIQUE INDEX uq_application_versions_unclaimed_version ON dbos.application_versions USING btree (version_name) WHERE (application_name IS NULL);

CREATE UNIQUE INDEX uq_workflow_status_dedup_id ON dbos.workflow_status USING btree (queue_name, deduplication_id) WHERE (deduplication_id IS NOT NULL);

CREATE INDEX workflow_status_created_at_index ON dbos.workflow_status USING btree (created_at);

CREATE INDEX conversation_records_of ON public.conversation_records USING btree (conversation_id, turn);

CREATE INDEX conversation_refusals_of ON public.conversation_refusals USING btree (conversation_id, id);

CREATE INDEX conversation_signals_buffered ON public.conversation_signals USING btree (conversation_id, name, sequence) WHERE (status = 'received'::text);

CREATE INDEX conversations_by_age ON public.conversations USING btree (created_at, id);

CREATE INDEX conversations_stranded ON public.conversations USING btree (id) WHERE ((task_id IS NULL) AND
CASE phase
    WHEN 'completed'::text THEN false
    WHEN 'waiting_for_input'::text THEN (buffered_messages > 0)
    WHEN 'awaiting_approval'::text THEN (buffered_decisions > 0)
    ELSE true
END);

CREATE INDEX conversations_waiting ON public.conversations USING btree (deadline) WHERE ((task_id IS NULL) AND (phase <> 'completed'::text));

CREATE INDEX conversations_with_task ON public.conversations USING btree (task_retry_at) WHERE (task_id IS NOT NULL);

ALTER TABLE ONLY dbos.notifications
    ADD CONSTRAINT notifications_destination_uuid_fkey FOREIGN KEY (destination_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.streams
    ADD CONSTRAINT streams_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events_history
    ADD CONSTRAINT workflow_events_history_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

ALTER TABLE ONLY dbos.workflow_events
    ADD CONSTRAINT workflow_events_workflow_uuid_fkey FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE;

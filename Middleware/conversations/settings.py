"""Settings of one process that works on conversations. All times are in seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    poll_seconds: float = 0.1
    """How often it is asked whether a task waits that was made in another process; those of this
    process are seen at once. A question costs a tenth of a millisecond of a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings:
    redispatch_after_seconds: float = 3.0
    scan_limit: int = 25
    failure_backoff_max_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    every_seconds: float = 60.0
    engine_seconds: float = 600.0
    """How long the engine's record of a finished task is kept; nothing reads it."""
    record_days: float | None = None
    """Replies older than this are removed; the history stays readable. None: never."""
    conversation_days: float | None = None
    """Conversations that ended longer ago are removed with all they had. None: never."""
    batch: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Times are in seconds. A lease must be longer than the longest freeze to be tolerated."""

    lease_seconds: float = 30.0
    loop_throttle_seconds: float = 5.0
    """Between two repair passes of all processes together."""
    turns_at_once: int = 32
    model_max_attempts: int = 3
    """Of a model call or an action that fails."""
    retry_pause_seconds: float = 1.0
    task_max_failures: int = 20
    """Failures in a row of a conversation's own logic after which it ends as failed."""
    storage_pause_seconds: float = 1.0
    """Between two attempts to reach a database that is gone."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    repair: RepairSettings = field(default_factory=RepairSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)

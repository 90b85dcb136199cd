from Middleware.runs.recorder import MemoryRecorder, RunRecord, Several, Silent, StepRecord
from Middleware.workflows.models.run import Run
from tests.fakes.recorded import a_step


class Noting(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def run_started(self, run: RunRecord) -> None:
        self.told.append(f"{run.id} started")

    def step_started(self, run: RunRecord, node_id: str) -> None:
        self.told.append(f"{run.id} {node_id} started")

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        self.told.append(f"{run.id} {step.node_name} finished")

    def run_finished(self, run: RunRecord) -> None:
        self.told.append(f"{run.id} finished")


def a_run(run_id: str) -> Run:
    return Run(id=run_id, workflow="w", folder="", user="tester")


def test_several_recorders_are_told_the_same() -> None:
    first, second = Noting(), Noting()
    both = Several(first, second)
    run, step = a_run("r1"), a_step("node_1", "Hello")

    both.run_started(run)
    both.step_started(run, "node_1")
    both.step_finished(run, step)
    both.run_finished(run)

    assert first.told == second.told
    assert first.told == [
        "r1 started",
        "r1 node_1 started",
        "r1 node_1 finished",
        "r1 finished",
    ]


def test_the_memory_holds_the_newest_runs_and_no_more() -> None:
    memory = MemoryRecorder(2)

    for number in range(3):
        memory.run_started(a_run(f"r{number}"))

    assert [run["id"] for run in memory] == ["r2", "r1"]
    assert memory.find("r0") is None
    assert (memory.find("r1") or {})["status"] == "running"

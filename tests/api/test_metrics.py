from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.headrace import Tree, answers, static
from tests.fakes.upstream import Upstream, chat, refuses

PRICES = {"models": {"test-model": {"inputPerMillion": 2, "outputPerMillion": 4}}}


def test_requests_and_nodes_are_told_to_prometheus(tmp_path: Path) -> None:
    tree = Tree(tmp_path).write("Prices.json", PRICES)
    tree.workflow("assistant", [static("draft"), answers()])
    with (
        Upstream(chat("Hel", "lo"), chat("Hello"), refuses(500)) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        assert live.chat(model="assistant", stream=True).text == "Hello"
        assert live.chat(model="assistant").status == 200
        assert live.chat(model="assistant").status == 502
        live.parts.run_log.flush()
        received = live.ask("GET", "/metrics")

    assert received.status == 200
    assert received.headers["content-type"].startswith("text/plain")
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(received.body.decode())
        for sample in family.samples
    }
    run = (("door", "openaichatcompletion"), ("workflow", "_shared/assistant/_DefaultWorkflow"))
    answer = (*run, ("endpoint", "Main"), ("node_type", "Standard"))

    def value(name: str, *labels: tuple[str, str]) -> float | None:
        return found.get((name, *sorted(labels)))

    assert value("headrace_requests_total", *run, ("status", "succeeded")) == 2
    assert value("headrace_requests_total", *run, ("status", "failed")) == 1
    assert value("headrace_request_duration_seconds_count", *run) == 3
    assert value("headrace_request_first_token_seconds_count", *run) == 1
    assert value("headrace_node_first_token_seconds_count", *answer) == 1
    assert value("headrace_node_duration_seconds_count", *answer) == 3
    assert value("headrace_tokens_total", *answer, ("direction", "prompt")) == 10
    assert value("headrace_tokens_total", *answer, ("direction", "completion")) == 14
    assert round(value("headrace_cost_total", *answer) or 0, 9) == 0.000076
    assert value("headrace_errors_total", *answer) == 1
    assert value("headrace_running") == 0
    assert value("headrace_run_log_dropped_total") == 0


def test_what_is_counted_does_not_depend_on_the_run_log(tmp_path: Path) -> None:
    tree = Tree(tmp_path, runLog={"enabled": False}).scripted("Main")
    tree.workflow("assistant", [answers()])
    with tree.serve() as live:
        assert live.chat(model="assistant").status == 200
        live.parts.run_log.flush()
        body = live.ask("GET", "/metrics", Accept="application/openmetrics-text").body

    assert b'headrace_requests_total{door="openaichatcompletion"' in body
    assert body.endswith(b"# EOF\n")


def test_requests_that_no_workflow_ran_for_are_counted_by_door_and_status(tmp_path: Path) -> None:
    tree = Tree(tmp_path, apiKeys=["k"]).scripted("Main")
    tree.scripted("Broken", default={"fail": {"status": 400, "message": "no"}})
    tree.workflow("assistant", [answers()]).workflow("broken", [answers("Broken")])
    key = {"authorization": "Bearer k"}
    good = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    asked = [
        ("/v1/chat/completions", good, {}, 401),
        ("/v1/chat/completions", good, key, 200),
        ("/v1/chat/completions", {**good, "model": "asistant"}, key, 404),
        ("/v1/chat/completions", {"model": "assistant"}, key, 400),
        # This one ran, and is counted as a run that failed.
        ("/v1/chat/completions", {**good, "model": "broken"}, key, 400),
        ("/v1/chat/completions", {**good, "model": "broken", "stream": True}, key, 400),
        ("/v1/messages", {"model": "assistant", "messages": 1}, key, 400),
        ("/api/chat", {**good, "model": "nobody"}, key, 404),
        ("/v1/responses", {"model": "nobody", "input": "hi"}, key, 404),
        ("/no/such/thing", good, key, 404),
        ("/no/such/thing/either", good, key, 404),
    ]
    with tree.serve() as live:
        for path, body, headers, status in asked:
            received = live.ask("POST", path, body, **headers)
            assert received.status == status, (path, received.body)
        text = live.ask("GET", "/metrics", **key).body.decode()

    counted = {
        (sample.labels["door"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "headrace_refused_requests_total"
    }
    assert counted == {
        ("openaichatcompletion", "401"): 1,
        ("openaichatcompletion", "404"): 1,
        ("openaichatcompletion", "400"): 1,
        ("anthropicmessages", "400"): 1,
        ("ollamaapichat", "404"): 1,
        ("openairesponses", "404"): 1,
        ("other", "404"): 2,
    }

"""The demo under many users, as `wenzhen benchmark serve` measures it."""

import pytest

from wenzhen.benchmark.serve import benchmark_serving, has_text, serving_table, summary
from wenzhen.errors import UsageError


def test_every_user_is_answered(url: str) -> None:
    result = benchmark_serving(f"{url}/", users=6, seconds=0)
    assert (result["users"], result["answers"], result["errors"]) == (6, 6, {})
    first, whole = result["first_character_ms"], result["whole_answer_ms"]
    for waits in (first, whole):
        assert 0 < waits["median"] <= waits["p95"] <= waits["max"]
    assert first["median"] <= whole["median"]
    assert "6 users" in serving_table(result) and "errors           none" in serving_table(result)


def test_summary_of_a_hundred_waits() -> None:
    assert summary([number / 1000 for number in range(100, 0, -1)]) == pytest.approx(
        {"median": 50.5, "p95": 95, "max": 100}
    )
    assert summary([]) is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"msg": "process_starts"}, False),
        ({"msg": "process_generating", "output": {"data": [""]}}, False),
        ({"msg": "process_generating", "output": {"data": [[]]}}, False),
        ({"msg": "process_generating", "output": {"data": [[["append", [], "您"]]]}}, True),
        ({"msg": "process_generating", "output": {"data": ["您"]}}, True),
        ({"msg": "process_completed", "output": {}}, False),
    ],
)
def test_first_character_is_told_from_what_comes_before(message: dict[str, object], text: bool) -> None:
    assert has_text(message) is text


def test_address_without_a_demo_is_refused() -> None:
    with pytest.raises(UsageError, match="no demo answers"):
        benchmark_serving("http://127.0.0.1:9", users=1, seconds=0)

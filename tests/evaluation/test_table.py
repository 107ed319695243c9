"""Tables for a terminal."""

from pathlib import Path

from wenzhen.evaluation.evaluator import evaluate_model
from wenzhen.evaluation.table import FURTHER, MEANINGS, aligned, metrics_table, number, width


def test_every_metric_is_known_by_name(model_folder: Path, tmp_path: Path) -> None:
    metrics = evaluate_model(model_folder, tmp_path, limit=5)
    floor = metrics["floors"]["constant"]
    # What a floor has is a metric, beside the number of questions, how it is counted and who is compared.
    counted = {key for key in floor if not key.endswith("_signature")}
    counted -= {"questions", "system", "other", "differences"}
    assert counted | {"loss", "perplexity", "padded_loss", "ended"} == {*MEANINGS, *FURTHER}
    assert set(MEANINGS) <= metrics.keys()


def test_columns_stand_below_each_other() -> None:
    assert aligned([["", "n"], ["内科", "1,000"], ["ab", "-"]]) == ["            n", "  内科  1,000", "  ab        -"]
    assert width("内a，") == 5


def test_numbers_take_as_many_digits_as_they_need() -> None:
    values = (None, 0.12345, 9.99994, 12.345, 1234.5, 1.0e7, float("1e300"))
    assert [number(value) for value in values] == [
        "-",
        "0.1235",
        "9.9999",
        "12.35",
        "1,234",
        "1.00e+07",
        "1.00e+300",
    ]


def test_the_table_tells_questions_floors_departments_leaks_and_verdicts() -> None:
    metrics = {
        "questions": 1200,
        "split": "test",
        "dataset": "data",
        "department": None,
        "loss": 2.5,
        "rougeL_char": 31.25,
        "rouge1_word": 8.0,
        "decoding": {"num_beams": 1, "do_sample": False, "description": "greedy search"},
        "intervals": {"rougeL_char": [30.0, 32.5]},
        "floors": {"random": {"rougeL_char": 16.0}},
        "departments": {"内科": {"questions": 1000, "loss": 2.0}, "外科": {"questions": 200, "loss": 3.0}},
        "near_duplicates": {"with": {"questions": 200, "loss": 1.0}, "without": {"questions": 1000, "loss": 3.0}},
        "verdicts": ["m beats a random training answer on 1 of 1 measures (95 %)"],
    }
    assert metrics_table(metrics).splitlines() == [
        "1,200 questions of the test split, answers by greedy search",
        "                value   95 % interval  random",
        "  loss         2.5000                       -",
        "  rouge1_word  8.0000                       -",
        "  rougeL_char   31.25  30.00 to 32.50   16.00",
        "",
        "        questions    loss",
        "  内科      1,000  2.0000",
        "  外科        200  3.0000",
        "",
        "200 questions have a near-duplicate in the training split:",
        "  with one (200): loss 1.0000",
        "  without one (1,000): loss 3.0000",
        "by the measures rouge1_word:",
        "  m beats a random training answer on 1 of 1 measures (95 %)",
    ]

"""The real commands, one after the other, on a tiny corpus: what `make quickstart` runs."""

import json
from pathlib import Path

from helpers import tiny_run
from processes import start


def test_from_csvs_to_an_answer(tmp_path: Path) -> None:
    def command(*words: object) -> str:
        program = start([str(word) for word in words], tmp_path / "command")
        assert program.wait() == 0, program.said()
        return program.printed()

    # A space in every path.
    folder = tmp_path / "my records"
    corpus, dataset, tokenizer, model = (folder / name for name in ("corpus", "dataset", "tokenizer", "model"))
    command("data_scripts/make_sample_corpus.py", "--output", corpus, "--pairs", 240, "--faults")
    built = command("data_scripts/build_dataset.py", "--input", corpus, "--output", dataset)
    assert "240 records read" in built
    command("data_scripts/train_tokenizer.py", "--dataset", dataset, "--output", tokenizer)
    overrides = [*tiny_run(dataset, tokenizer), f"output={model}", "training.max_steps=20", "evaluation.questions=4"]
    trained = command("-m", "wenzhen", "train", "recipes/quickstart.yaml", *overrides)
    assert trained.endswith(f"model: {model}  (training_log.jsonl, figures/loss.png, metrics.json, README.md)\n")
    assert json.loads((model / "metrics.json").read_text(encoding="utf-8"))["split"] == "validation"

    metrics = json.loads(command("-m", "wenzhen", "evaluate", model, "--json"))
    report = json.loads((dataset / "report.json").read_text(encoding="utf-8"))
    assert metrics["questions"] == report["splits"]["test"]
    assert json.loads((model / "metrics.json").read_text(encoding="utf-8")) == metrics
    assert f"| loss | {metrics['loss']:.4f} |" in (model / "README.md").read_text(encoding="utf-8")

    answer = command("-m", "wenzhen", "answer", model, "痔疮有什么症状？")
    assert "机器生成" in answer
    questions = folder / "questions.txt"
    questions.write_text("痔疮有什么症状？\n高血压怎么办？\n", encoding="utf-8")
    rows = [json.loads(line) for line in command("-m", "wenzhen", "answer", model, "--file", questions).splitlines()]
    assert [row["question"] for row in rows] == ["痔疮有什么症状？", "高血压怎么办？"]
    assert rows[0]["text"] == answer.splitlines()[0]

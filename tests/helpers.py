"""What several test files call."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def tiny_run(dataset: Path, tokenizer_folder: Path) -> list[str]:
    """Return the overrides that make the quickstart recipe tiny."""
    return [
        f"data.dataset={dataset}",
        f"data.tokenizer={tokenizer_folder}",
        "data.max_question_length=96",
        "data.max_answer_length=80",
        "model.d_model=32",
        "model.d_ff=64",
        "training.bf16=false",
    ]

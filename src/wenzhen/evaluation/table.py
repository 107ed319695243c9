"""Metrics as a table with what each one means."""

from typing import Any

# Key of metrics.json -> what it is. Shown in this order, in the terminal and on the model card.
MEANINGS = {
    "loss": "nats per real token",
    "perplexity": "exp(loss), per token",
    "padded_loss": "nats per token, answers padded to 200 tokens, padding free",
    "bleu4_char": "corpus BLEU-4 over characters (sacreBLEU), 0-100",
    "rougeL_char": "ROUGE-L F1 over characters (rouge-chinese), 0-100",
    "distinct2_char": "different character pairs over all pairs, 0-1",
    "ended": "share of answers that end by themselves",
    "repetitive": "share with a 4-gram of characters three times or more",
    "fact_recall": "share of the real answers' facts that are stated",
}


def metric_rows(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of every metric there is."""
    rows = []
    for name, meaning in MEANINGS.items():
        value = metrics.get(name)
        if value is not None:
            rows.append((name, f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}", meaning))
    return rows


def metrics_table(metrics: dict[str, Any]) -> str:
    """Render metrics for a terminal."""
    title = f"{metrics['questions']:,} questions of the {metrics['split']} split"
    return "\n".join(
        (title, *(f"  {name:<16}{value:>10}  {meaning}" for name, value, meaning in metric_rows(metrics)))
    )

"""Metrics over generated answers, each over characters, so that Chinese needs no word segmentation.

They are `evaluate.Metric` classes that need no download: make one and call `compute(predictions=…, references=…)`.
Scores that the literature gives in percent (BLEU, ROUGE) go from 0 to 100, shares from 0 to 1.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import evaluate
from datasets import Features, Value
from rouge_chinese import Rouge
from sacrebleu.metrics import BLEU


class AnswerMetric(evaluate.Metric):
    """A metric over pairs of generated and real answers, kept in memory."""

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.__doc__ or "",
            citation="",
            features=Features({"predictions": Value("string"), "references": Value("string")}),
        )


class CharacterBleu(AnswerMetric):
    """Corpus BLEU-4 (Papineni et al. 2002) over characters by sacreBLEU, 0 to 100, with sacreBLEU's signature."""

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
        bleu = BLEU(tokenize="char")
        score = bleu.corpus_score(list(predictions), [list(references)])
        return {"bleu4_char": float(score.score), "bleu4_char_signature": str(bleu.get_signature())}


class CharacterRougeL(AnswerMetric):
    """ROUGE-L (Lin 2004) over characters by rouge-chinese: F1 of the longest common subsequence, mean, 0 to 100."""

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        rouge = Rouge(metrics=["rouge-l"], stats=["f"])
        total = 0.0
        for prediction, reference in zip(predictions, references, strict=True):
            spaced = [" ".join("".join(text.split())) for text in (prediction, reference)]
            # The library refuses empty texts; nothing shared with nothing scores nothing.
            if all(spaced):
                total += rouge.get_scores(spaced[:1], spaced[1:])[0]["rouge-l"]["f"]
        return {"rougeL_char": 100 * total / len(predictions)}


class CharacterDistinct2(AnswerMetric):
    """Distinct-2 (Li et al. 2016): different pairs of neighbouring characters over all such pairs, 0 to 1."""

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        pairs = Counter(pair for text in predictions for pair in itertools.pairwise(text))
        return {"distinct2_char": len(pairs) / pairs.total() if pairs else 0.0}


class Repetitive(AnswerMetric):
    """Share of answers in which some four neighbouring characters come three times or more, 0 to 1."""

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return {"repetitive": sum(map(is_repetitive, predictions)) / len(predictions)}


def is_repetitive(text: str, size: int = 4, times: int = 3) -> bool:
    """Tell whether some `size` neighbouring characters come `times` times or more, overlaps counted."""
    counts = Counter(text[start : start + size] for start in range(len(text) - size + 1))
    return max(counts.values(), default=0) >= times


class FactRecall(AnswerMetric):
    """Share of the facts stated in the real answers that the generated ones state too, 0 to 1.

    Args:
        facts: the phrases that count as facts. A phrase inside a longer one that a real answer states is not counted.
    """

    def __init__(self, facts: Sequence[str]) -> None:
        super().__init__()
        self.facts = facts

    def _compute(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float | None]:
        stated = recalled = 0
        for prediction, reference in zip(predictions, references, strict=True):
            facts = self.stated_in(reference)
            stated += len(facts)
            recalled += sum(fact in prediction for fact in facts)
        return {"fact_recall": recalled / stated if stated else None}

    def stated_in(self, text: str) -> list[str]:
        """Return the facts that a text states."""
        found = [fact for fact in self.facts if fact in text]
        return [fact for fact in found if not any(fact != other and fact in other for other in found)]


def answer_metrics(
    predictions: Sequence[str], references: Sequence[str], facts: Sequence[str]
) -> dict[str, float | str | None]:
    """Compute every metric over texts; `fact_recall` is None where there are no facts."""
    metrics = [CharacterBleu(), CharacterRougeL(), CharacterDistinct2(), Repetitive(), FactRecall(facts)]
    results: dict[str, float | str | None] = {}
    for metric in metrics:
        results |= metric.compute(predictions=predictions, references=references)
    return results

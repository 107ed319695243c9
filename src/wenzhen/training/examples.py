"""What the model answers while it learns, to a few questions that stay the same."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from tqdm import tqdm
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from wenzhen.corpus.schema import question_text
from wenzhen.recipe import Data
from wenzhen.tokenization import Encoder
from wenzhen.training.log import TrainingLog

if TYPE_CHECKING:
    from datasets import Dataset

# Characters of a text on the terminal.
SHOWN = 100


class ExampleAnswers(TrainerCallback):
    """Answers questions whenever the validation loss was measured, shows the answers and adds them to the log.

    Only the first process answers, by itself; where no process holds the whole model (FSDP), none does.

    Args:
        rows: consultations whose questions are asked; their answers stand beside the model's.
        data: how a question is made of a consultation.
        tokenizer: the model's.
        config: how to write an answer. Sampling would use up random numbers that the training needs.
        log: where the answers go.
    """

    def __init__(
        self,
        rows: "Dataset",
        data: Data,
        tokenizer: PreTrainedTokenizerFast,
        config: GenerationConfig,
        log: TrainingLog,
    ) -> None:
        self.questions = [question_text(row["title"], row["question"], data.with_title) for row in rows]
        self.references = list(rows["answer"])
        ids = Encoder(tokenizer)(self.questions, data.max_question_length).to_pylist()
        self.inputs = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        self.tokenizer = tokenizer
        self.config = config
        self.log = log

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say so where there will be no answers."""
        if state.is_world_process_zero and is_sharded(kwargs["model"]):
            tqdm.write("examples    none: no process holds the whole model to answer with (FSDP)")

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Answer the questions."""
        model: PreTrainedModel = kwargs["model"]
        if not state.is_world_process_zero or is_sharded(model):
            return
        examples = [
            {"question": question, "reference": reference, "answer": answer}
            for question, reference, answer in zip(self.questions, self.references, self.answers(model), strict=True)
        ]
        self.log.add_examples(state, examples)
        tqdm.write("\n".join(lines(state.global_step, examples)))

    def answers(self, model: PreTrainedModel) -> list[str]:
        """Return the model's answers to all questions; the model is left as it was."""
        training = model.training
        model.eval()
        try:
            tokens = model.generate(**self.inputs.to(model.device), generation_config=self.config)
        finally:
            model.train(training)
        return [self.tokenizer.decode(row, skip_special_tokens=True) for row in tokens]


def is_sharded(model: nn.Module) -> bool:
    """Tell whether each process holds a part of the weights only."""
    return isinstance(model, FSDPModule | FullyShardedDataParallel)


def lines(step: int, examples: list[dict[str, str]]) -> Iterator[str]:
    """Yield the examples for a terminal."""
    yield f"answers at step {step:,}"
    for example in examples:
        yield from (f"  {name:<11}{shortened(text)}" for name, text in example.items())
        yield ""


def shortened(text: str) -> str:
    """Bring a text to one line, and cut a long one; the log has the whole."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

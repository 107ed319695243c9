"""The department that a question seems to belong to, guessed by a classifier that `wenzhen train` made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Questions at a time.
BATCH = 64


@dataclass(frozen=True, slots=True)
class DepartmentGuess:
    """The department that a question seems to belong to, its probability, and all of them, the likeliest first."""

    name: str
    probability: float
    ranking: tuple[tuple[str, float], ...]


class DepartmentGuesser:
    """A classifier folder, loaded on a GPU where there is one; many threads may ask it at a time.

    Args:
        folder: what `wenzhen train` left of a recipe with `task: department`.

    Raises:
        UsageError: the folder holds no classifier, or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        import torch

        from wenzhen.models.loading import explained_loading, load_classifier
        from wenzhen.tokenization import Encoder, load_tokenizer

        self.model = load_classifier(folder).eval()
        self.device = torch.accelerator.current_accelerator() or torch.device("cpu")
        self.model.to(self.device)
        with explained_loading(folder):
            tokenizer = load_tokenizer(folder)
        self.encoder = Encoder(tokenizer)
        self.longest = min(int(tokenizer.model_max_length), int(self.model.config.max_position_embeddings))
        self.names = [self.model.config.id2label[number] for number in range(self.model.config.num_labels)]

    def guess(self, questions: Sequence[str]) -> list[DepartmentGuess]:
        """Return a guess for each question; of one that is too long for the classifier it reads the beginning."""
        return [self.as_guess(row) for row in self.probabilities(questions)]

    def as_guess(self, probabilities: NDArray[np.float64]) -> DepartmentGuess:
        """Put the probabilities of the departments, `[departments]`, in order."""
        order = np.argsort(-probabilities, kind="stable")
        ranking = tuple((self.names[number], float(probabilities[number])) for number in order)
        return DepartmentGuess(*ranking[0], ranking)

    def probabilities(self, questions: Sequence[str], batch_size: int = BATCH) -> NDArray[np.float64]:
        """Return the probability of every department for each question, `[questions, departments]`."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        found = np.zeros((len(questions), len(self.names)))
        tokens = self.encoder(list(questions), self.longest)
        # Questions of like lengths together pad less.
        lengths = np.array(tokens.value_lengths())
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            inputs = pad_sequence([torch.tensor(tokens[int(row)].as_py()) for row in rows], batch_first=True)
            real = torch.arange(inputs.shape[1]) < torch.from_numpy(lengths[rows]).unsqueeze(1)
            with torch.inference_mode():
                logits = self.model(inputs.to(self.device), real.to(self.device)).logits
            found[rows] = logits.double().softmax(1).cpu().numpy()
        return found

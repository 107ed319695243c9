"""How probable an answer is, told while it is written: what reading it again tells."""

import numpy as np
import pytest

from small_models import PAIRS, POSITIONS
from wenzhen.answering.decoding import decoding_named
from wenzhen.answering.engines import Engine

QUESTIONS = [*PAIRS, "痛", "血压高不高", "孩子发烧，要吃药吗"]


@pytest.mark.parametrize("name", ["greedy", "beam", "beam:length_penalty=0", "beam:num_beams=3,length_penalty=2"])
@pytest.mark.parametrize("longest", [POSITIONS, 3])
def test_writing_tells_what_reading_tells(
    exported: Engine, name: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three tokens cut most answers.
    monkeypatch.setattr(exported.default_generation_config, "max_new_tokens", longest)
    written = dict(exported.generate(QUESTIONS, decoding_named(name)))
    told = [number for number, answer in written.items() if answer.text]
    assert all((written[number].probability is not None) == (number in told) for number in written)
    assert any(not written[number].ended for number in told) or longest == POSITIONS
    nll, tokens, _ = exported.score([QUESTIONS[n] for n in told], [written[n].text for n in told], longest).T
    np.testing.assert_allclose([written[n].probability for n in told], np.exp(-nll / tokens), rtol=1e-4)
    assert len(told) > 2


@pytest.mark.parametrize("name", ["sampling", "greedy:repetition_penalty=1.2", "beam:no_repeat_ngram_size=2"])
def test_what_is_chosen_by_other_numbers_is_not_rated_by_them(exported: Engine, name: str) -> None:
    assert all(answer.probability is None for _, answer in exported.generate(QUESTIONS, decoding_named(name)))

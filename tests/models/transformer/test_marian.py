"""The thesis' Transformer against MarianMTModel with the same weights."""

import pytest
import torch
from peer_models import (
    ANSWER_LENGTH,
    PAD,
    SHAPES,
    THESIS,
    assert_near,
    batch,
    gradients,
    random_ids,
    random_model,
    thesis_batch,
    trained_model,
)
from torch import nn

from wenzhen.benchmark.peer import make_marian, to_marian
from wenzhen.models.transformer.modeling_transformer import WenzhenDropout

MARIANS = {
    **SHAPES,
    "separate tables": {"tie_word_embeddings": False},
    "learned positions": {"positions": "learned"},
}


@pytest.fixture(params=[random_model, trained_model], ids=["random", "trained"])
def make_model(request):
    return request.param


@pytest.mark.parametrize("changes", MARIANS.values(), ids=MARIANS.keys())
def test_logits_loss_and_gradients_equal_those_of_marian(make_model, changes):
    model = make_model(**changes)
    marian = make_marian(model)
    ours, theirs = (m(**batch()) for m in (model, marian))
    assert_near(ours.logits, theirs.logits)
    assert_near(ours.loss, theirs.loss)
    assert ours.logits.abs().max() > 2
    for candidate, loss in ((model, ours.loss), (marian, theirs.loss)):
        candidate.zero_grad()
        loss.backward()
    # Marian does not train its positions.
    actual = {name: g for name, g in to_marian(gradients(model)).items() if "embed_positions" not in name}
    expected = {name: g for name, g in gradients(marian).items() if "embed_positions" not in name}
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        assert_near(gradient, expected[name])


def test_padding_on_the_left_equals_marians_on_the_right(make_model):
    """Marian itself counts padding on the left as positions."""
    model = make_model()
    ours = model(**batch("left"))
    theirs = make_marian(model)(**batch("right"))
    assert_near(ours.logits, theirs.logits)
    assert_near(ours.loss, theirs.loss)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"encoder_layers": 1, "decoder_layers": 3}], ids=["equal", "unequal"])
def test_answers_equal_those_of_marian(make_model, changes, num_beams):
    model = make_model(**changes)
    questions = random_ids(6, 9, seed=4)
    questions[3:, 5:] = PAD
    questions[:2] = batch()["input_ids"]
    settings = {"num_beams": num_beams, "do_sample": False, "max_new_tokens": ANSWER_LENGTH, "length_penalty": 0.75}
    inputs = {"input_ids": questions, "attention_mask": (questions != PAD).long()}
    ours, theirs = (m.generate(**inputs, **settings) for m in (model, make_marian(model)))
    assert torch.equal(ours, theirs)
    if make_model is trained_model:
        assert torch.equal(ours[0, 1:], batch()["labels"][0])


def test_dropout_falls_where_it_falls_in_marian(monkeypatch):
    """Equal masks from an equal seed leave equal logits only where the same tensors are dropped in the same order."""
    # PyTorch's own draws, as Marian makes them.
    monkeypatch.setattr(WenzhenDropout, "forward", nn.Dropout.forward)
    model = random_model(dropout=0.4).train()
    logits = []
    for candidate in (model, make_marian(model)):
        torch.manual_seed(6)
        logits.append(candidate(**batch()).logits)
    assert_near(*logits)
    assert (logits[0] - model.eval()(**batch()).logits).abs().max() > 0.1


@torch.no_grad()
def test_the_thesis_whole_shape_equals_marian():
    model = random_model(noise=0.02, **THESIS)
    ours, theirs = (m(**thesis_batch()).logits for m in (model, make_marian(model)))
    assert ours.shape == (2, ANSWER_LENGTH, THESIS["vocab_size"])
    # The logits' standard deviation is 1.1, the largest 4.7; the largest difference has been 0.
    assert_near(ours, theirs)

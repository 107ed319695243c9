"""What a model reads: padding, the other rows of a batch, what comes later, and every token that it should."""

import pytest
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from .family import (
    BOS,
    EOS,
    PAD,
    Choices,
    ModelFamily,
    answer_batch,
    assert_near,
    padded,
    question_batch,
    random_ids,
    real,
)

SIDES = ("none", "left", "right")


def embed(model: PreTrainedModel, side: str, ids: torch.Tensor) -> torch.Tensor:
    """Look ids up in the embedding of the encoder or the decoder, as a leaf that gathers gradients."""
    stack = model.get_encoder() if side == "encoder" else model.get_decoder()
    return stack.get_input_embeddings()(ids).detach().requires_grad_()


def reached(output: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """How strongly each token of `source` `[batch, length, d]` moves each of `output` `[batch, targets, d]`.

    Returns:
        `[batch, targets, length]`, the largest gradient of a random mix of the output's features. (The plain sum of a
        normalized state is constant.)
    """
    probe = torch.randn(output.shape[-1], generator=torch.Generator().manual_seed(4))
    mixed = (output @ probe).sum(0)
    (strengths,) = torch.autograd.grad(mixed, source, torch.eye(len(mixed)), is_grads_batched=True)
    return strengths.abs().amax(-1).transpose(0, 1)


def assert_reached(strengths: torch.Tensor, expected: torch.Tensor) -> None:
    """Every expected token moves the output, and no other does in the least."""
    expected = expected.expand_as(strengths)
    assert strengths[expected].min() > 0
    assert not expected.logical_not().any() or strengths[~expected].max() == 0


class ReadingLaws(ModelFamily):
    """Padding, batches, directions and inputs."""

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_padding_of_questions_changes_nothing(self, every: Choices, side: str) -> None:
        model, question, answer = self.model(every), random_ids(1, 6), random_ids(1, 5, seed=2)
        alone = model(input_ids=question, decoder_input_ids=answer)
        input_ids = padded(question, 10, side)
        mask = real(input_ids)
        longer = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=answer)
        assert_near(longer.logits, alone.logits)
        assert_near(longer.encoder_last_hidden_state[mask.bool()], alone.encoder_last_hidden_state[0])

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_padding_of_answers_changes_nothing(self, every: Choices, side: str) -> None:
        model, question, answer = self.model(every), random_ids(1, 6), random_ids(1, 5, seed=2)
        alone = model(input_ids=question, decoder_input_ids=answer)
        ids = padded(answer, 8, side)
        longer = model(input_ids=question, decoder_input_ids=ids, decoder_attention_mask=real(ids))
        assert_near(longer.logits[real(ids).bool()], alone.logits[0])

    def test_masks_of_ones_change_nothing(self, every: Choices) -> None:
        batch = {**question_batch("none"), **answer_batch("none")}
        masks = {
            "attention_mask": torch.ones_like(batch["input_ids"]),
            "decoder_attention_mask": torch.ones_like(batch["decoder_input_ids"]),
        }
        assert_near(self.model(every)(**batch, **masks).logits, self.model(every)(**batch).logits)

    def test_rows_of_a_batch_never_meet(self, every: Choices) -> None:
        batch = {**question_batch(), **answer_batch()}
        logits = self.model(every)(**batch).logits
        order = torch.tensor([2, 0, 1])
        assert_near(self.model(every)(**{name: rows[order] for name, rows in batch.items()}).logits, logits[order])
        for row in range(3):
            alone = self.model(every)(**{name: rows[row : row + 1] for name, rows in batch.items()}).logits
            seen = batch["decoder_attention_mask"][row].bool()
            assert_near(alone[0, seen], logits[row, seen])

    @pytest.mark.parametrize("side", SIDES)
    def test_encoder_reads_both_ways_and_no_padding(self, every: Choices, side: str) -> None:
        model, batch = self.model(every), question_batch(side)
        ids, mask = batch["input_ids"], batch.get("attention_mask")
        embeddings = embed(model, "encoder", ids)
        states = model.get_encoder()(inputs_embeds=embeddings, attention_mask=mask).last_hidden_state
        strengths = reached(states, embeddings)
        for row, tokens in enumerate(real(ids).bool()):
            expected = self.read_by_encoder(dict(every), tokens).expand(len(tokens), -1)
            assert_reached(strengths[row, tokens], expected[tokens])

    @pytest.mark.parametrize("side", SIDES)
    def test_decoder_reads_exactly_the_tokens_so_far(self, every: Choices, side: str) -> None:
        model, batch = self.model(every), answer_batch(side)
        tokens, mask = real(batch["decoder_input_ids"]).bool(), batch.get("decoder_attention_mask")
        embeddings = embed(model, "decoder", batch["decoder_input_ids"])
        logits = model(
            input_ids=question_batch("none")["input_ids"],
            decoder_inputs_embeds=embeddings,
            decoder_attention_mask=mask,
        ).logits
        strengths = reached(logits, embeddings)
        for row in range(len(tokens)):
            so_far = torch.ones(7, 7, dtype=torch.bool).tril() & tokens[row]
            assert_reached(strengths[row, tokens[row]], so_far[tokens[row]])

    @pytest.mark.parametrize("side", SIDES)
    def test_decoder_reads_every_token_of_the_question_and_no_padding(self, every: Choices, side: str) -> None:
        model, batch = self.model(every), question_batch(side)
        mask, answers = batch.get("attention_mask"), answer_batch("none")
        tokens = real(batch["input_ids"]).bool()
        embeddings = embed(model, "encoder", batch["input_ids"])
        logits = model(inputs_embeds=embeddings, attention_mask=mask, **answers).logits
        assert_reached(reached(logits, embeddings), tokens.unsqueeze(1))
        # Past the encoder, which mixes all tokens into each state.
        states = model.get_encoder()(batch["input_ids"], mask).last_hidden_state.detach().requires_grad_()
        outputs = model(encoder_outputs=BaseModelOutput(states), attention_mask=mask, **answers)
        encoded = torch.stack([self.read_by_decoder(dict(every), row) for row in tokens])
        assert_reached(reached(outputs.logits, states), encoded.unsqueeze(1))

    def test_attentions_are_distributions_over_the_real_tokens(self, every: Choices) -> None:
        model = self.model((*every, ("attn_implementation", "eager")))
        outputs = model(**question_batch(), **answer_batch("none"), output_attentions=True)
        heads = getattr(model.config, "num_attention_heads", 1)
        shapes = {"encoder_attentions": (9, 9), "decoder_attentions": (7, 7), "cross_attentions": (7, 9)}
        for name, layers in self.attentions.items():
            assert len(outputs[name]) == (layers(model.config) if callable(layers) else getattr(model.config, layers))
            for weights in outputs[name]:
                assert weights.shape == (3, heads, *shapes[name])
                assert weights.min() >= 0
                assert_near(weights.sum(-1), torch.ones(weights.shape[:-1]))
                if name == "decoder_attentions":
                    assert weights.triu(1).max() == 0
                else:
                    assert weights[1, ..., 5:].max() == weights[2, ..., 7:].max() == 0

    def test_hidden_states_end_in_the_output(self, pairwise: Choices) -> None:
        model = self.model(pairwise)
        outputs = model(**question_batch(), **answer_batch(), output_hidden_states=True)
        assert len(outputs.encoder_hidden_states) == model.config.encoder_layers + 1
        assert len(outputs.decoder_hidden_states) == model.config.decoder_layers + 1
        assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
        assert torch.equal(model.get_output_embeddings()(outputs.decoder_hidden_states[-1]), outputs.logits)

    def test_embeddings_stand_for_their_ids(self, every: Choices) -> None:
        model, questions, answers = self.model(every), question_batch(), answer_batch()
        expected = model(**questions, **answers).logits
        input_ids, decoder_input_ids = questions.pop("input_ids"), answers.pop("decoder_input_ids")
        inputs = {
            "inputs_embeds": embed(model, "encoder", input_ids),
            "decoder_inputs_embeds": embed(model, "decoder", decoder_input_ids),
        }
        assert torch.equal(model(**questions, **answers, **inputs).logits, expected)

    def test_encoder_outputs_stand_for_their_question(self, every: Choices) -> None:
        model, questions, answers = self.model(every), question_batch(), answer_batch()
        expected = model(**questions, **answers)
        mask = questions["attention_mask"]
        encoded = model.get_encoder()(**questions)
        assert torch.equal(encoded.last_hidden_state, expected.encoder_last_hidden_state)
        for given in (encoded, (encoded.last_hidden_state,)):
            assert torch.equal(model(encoder_outputs=given, attention_mask=mask, **answers).logits, expected.logits)

    def test_an_empty_question_is_answered(self, every: Choices) -> None:
        model, empty = self.model(every), torch.tensor([[EOS]])
        assert model(input_ids=empty, **{k: v[:1] for k, v in answer_batch("none").items()}).logits.isfinite().all()
        assert model.generate(empty, max_new_tokens=3, min_new_tokens=3, use_cache=True).shape == (1, 4)

    @pytest.mark.parametrize("length", [1, 9])
    def test_a_question_of_padding_alone_harms_nobody(self, every: Choices, length: int) -> None:
        """Its own answer has nothing to read; that of another row, and the gradients, are as they should be."""
        model, question = self.model(every), random_ids(1, length)
        input_ids = torch.cat((question, torch.full_like(question, PAD)))
        answers = torch.tensor([[BOS, 7, 8]]).expand(2, -1)
        logits = model(input_ids=input_ids, attention_mask=real(input_ids), decoder_input_ids=answers).logits
        assert logits.isfinite().all()
        assert_near(logits[:1], model(input_ids=question, decoder_input_ids=answers[:1]).logits)
        gradients = torch.autograd.grad(logits.logsumexp(-1).sum(), list(model.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)

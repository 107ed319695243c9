"""Step by step as at once: caches, the ways to search, and where sequences end."""

import functools
import itertools
from typing import Any, ClassVar

import pytest
import torch
from transformers import EncoderDecoderCache, PreTrainedModel, StaticCache

from .family import (
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

LENGTH = 24
SEARCHES = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 3},
    # Hot enough to leave the memorized answers.
    "sampling": {"do_sample": True, "top_k": 0, "temperature": 4.0},
}


def static_cache(model: PreTrainedModel, source_length: int, target_length: int) -> EncoderDecoderCache:
    """An empty cache of fixed size."""
    config = model.config.get_text_config(decoder=True)
    return EncoderDecoderCache(
        StaticCache(config, max_cache_len=target_length), StaticCache(config, max_cache_len=source_length)
    )


def decode_in_pieces(
    model: PreTrainedModel,
    questions: dict[str, torch.Tensor],
    answers: dict[str, torch.Tensor],
    cache: EncoderDecoderCache | None,
) -> torch.Tensor:
    """Logits of answers that arrive as 1, 3, 1 and 2 tokens."""
    encoded = model.get_encoder()(**questions)
    ids, mask = answers["decoder_input_ids"], answers.get("decoder_attention_mask")
    logits = []
    for start, stop in itertools.pairwise((0, 1, 4, 5, 7)):
        outputs = model(
            encoder_outputs=encoded,
            attention_mask=questions.get("attention_mask"),
            decoder_input_ids=ids[:, start:stop],
            decoder_attention_mask=None if mask is None else mask[:, :stop],
            past_key_values=cache,
            use_cache=True,
        )
        cache = outputs.past_key_values
        logits.append(outputs.logits)
    return torch.cat(logits, dim=1)


def memorized_batch() -> dict[str, torch.Tensor]:
    """Three padded questions; to the first an answer of 24 tokens without an end, then two of 15 and 20 with one."""
    answers = [random_ids(1, LENGTH, seed=3)]
    for length in (15, 20):
        answer = torch.cat((random_ids(1, length - 1, seed=length), torch.tensor([[EOS]])), dim=1)
        answers.append(padded(answer, LENGTH, "right", value=-100))
    return {**question_batch(), "labels": torch.cat(answers)}


def generate(model: PreTrainedModel, **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers of 24 tokens, without the start token, and the logits of every step."""
    torch.manual_seed(5)
    outputs = model.generate(
        **question_batch(),
        # Without this an early end would leave next to nothing to compare.
        min_new_tokens=LENGTH,
        max_new_tokens=LENGTH,
        return_dict_in_generate=True,
        output_logits=True,
        **settings,
    )
    return outputs.sequences[:, 1:], torch.stack(outputs.logits)


class GenerationLaws(ModelFamily):
    """Caches and searches, on models that know their answers by heart.

    Attributes:
        memorizing_rate: the highest learning rate at which they learn them.
    """

    memorizing_rate: ClassVar[float] = 5e-3

    @classmethod
    @functools.cache
    def memorizing_model(cls, choices: Choices = ()) -> PreTrainedModel:
        """A model that learned three answers: a random one repeats one token, whatever it read before."""
        model, batch, steps = cls.new_model(choices, noise=0.0).train(), memorized_batch(), 120
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=cls.memorizing_rate, total_steps=steps)
        for _ in range(steps):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            schedule.step()
        return model.eval()

    def test_training_memorizes_answers_and_where_they_end(self, pairwise: Choices) -> None:
        batch, model = memorized_batch(), self.memorizing_model(pairwise)
        assert self.new_model(pairwise, noise=0.0)(**batch).loss > 3
        assert model(**batch).loss < 0.1
        for search in ("greedy", "beam"):
            answers = model.generate(**question_batch(), max_new_tokens=LENGTH, **SEARCHES[search])[:, 1:]
            for answer, labels in zip(answers, batch["labels"], strict=True):
                # What fills a row behind its end is another token in each search.
                assert torch.equal(answer[labels != -100], labels[labels != -100]), search

    def test_a_question_is_answered_the_same_in_any_batch(self, pairwise: Choices) -> None:
        """The answers are told apart by the question alone, so they also show that it is read."""
        model = self.memorizing_model(pairwise)
        expected = model.generate(**question_batch(), max_new_tokens=LENGTH)
        for side in ("left", "right"):
            batch = {name: rows.flip(0) for name, rows in question_batch(side).items()}
            assert torch.equal(model.generate(**batch, max_new_tokens=LENGTH).flip(0), expected), side
        for ids, answer in zip(question_batch()["input_ids"], expected, strict=True):
            alone = model.generate(ids[ids != PAD].unsqueeze(0), max_new_tokens=LENGTH)
            assert torch.equal(alone[0], answer[answer != PAD])

    def check_cache(self, choices: Choices, search: str, **settings: Any) -> None:
        """Compare generation with a cache to generation without."""
        model, settings = self.memorizing_model(choices), {**SEARCHES[search], **settings}
        cached, cached_logits = generate(model, use_cache=True, **settings)
        settings.pop("cache_implementation", None)
        plain, plain_logits = generate(model, use_cache=False, **settings)
        assert plain.shape == (3, LENGTH)
        assert all(len(set(row.tolist())) >= 10 for row in plain)
        assert torch.equal(plain[0], memorized_batch()["labels"][0]) != settings["do_sample"]
        assert torch.equal(cached, plain)
        assert_near(cached_logits, plain_logits, atol=1e-4)

    @pytest.mark.parametrize("search", SEARCHES)
    def test_generation_needs_no_cache(self, pairwise: Choices, search: str) -> None:
        self.check_cache(pairwise, search)

    @pytest.mark.parametrize("search", SEARCHES)
    def test_generation_with_a_static_cache_needs_no_cache(self, pairwise: Choices, search: str) -> None:
        self.check_cache(pairwise, search, cache_implementation="static")

    @pytest.mark.parametrize("side", ["none", "left", "right"])
    def test_answers_in_pieces_equal_answers_at_once(self, every: Choices, side: str) -> None:
        self.check_pieces(every, side, None)

    @pytest.mark.parametrize("side", ["none", "left", "right"])
    def test_answers_in_pieces_in_a_static_cache_equal_answers_at_once(self, every: Choices, side: str) -> None:
        self.check_pieces(every, side, static_cache(self.model(every), 9, 11))

    def check_pieces(self, choices: Choices, side: str, cache: EncoderDecoderCache | None) -> None:
        """Compare the logits of real tokens that arrive piece by piece to those of all at once."""
        model, questions, answers = self.model(choices), question_batch(side), answer_batch(side)
        tokens = real(answers["decoder_input_ids"]).bool()
        with torch.no_grad():
            whole = model(**questions, **answers).logits
            pieces = decode_in_pieces(model, questions, answers, cache)
        assert_near(pieces[tokens], whole[tokens])

    def test_a_reused_encoder_output_is_enough_to_generate(self, pairwise: Choices) -> None:
        model, questions = self.memorizing_model(pairwise), question_batch()
        expected = model.generate(**questions, max_new_tokens=LENGTH)
        encoded = model.get_encoder()(**questions)
        mask = questions["attention_mask"]
        answers = model.generate(encoder_outputs=encoded, attention_mask=mask, max_new_tokens=LENGTH)
        assert torch.equal(answers, expected)

    @pytest.mark.parametrize("side", ["input_ids", "decoder_input_ids"])
    def test_sequences_fill_every_position_and_not_more(self, every: Choices, side: str) -> None:
        model = self.model(every)
        longest = model.config.max_position_embeddings
        batch = {"input_ids": random_ids(1, 3), "decoder_input_ids": random_ids(1, 3)}
        assert model(**{**batch, side: random_ids(1, longest)}).logits.isfinite().all()
        with pytest.raises(ValueError, match=rf"{longest + 1} tokens.*`max_position_embeddings` \({longest}\)"):
            model(**{**batch, side: random_ids(1, longest + 1)})

    def test_cached_tokens_fill_positions_too(self, every: Choices) -> None:
        model = self.model(every)
        longest = model.config.max_position_embeddings
        question, answer = random_ids(1, 3), random_ids(1, longest)
        cache = model(input_ids=question, decoder_input_ids=answer, use_cache=True).past_key_values
        with pytest.raises(ValueError, match=rf"{longest + 1} tokens.*`max_position_embeddings` \({longest}\)"):
            model(input_ids=question, decoder_input_ids=answer[:, :1], past_key_values=cache)

    @pytest.mark.parametrize("settings", [{"use_cache": False}, {}, {"cache_implementation": "static"}], ids=str)
    def test_generation_fills_every_position_and_not_more(self, settings: dict[str, Any]) -> None:
        model, question = self.model(), random_ids(1, 3)
        longest = model.config.max_position_embeddings
        for extra in (0, 1):
            lengths = {"min_new_tokens": longest + extra, "max_new_tokens": longest + extra}
            if extra:
                with pytest.raises(ValueError, match="max_position_embeddings"):
                    model.generate(question, **lengths, **settings)
            else:
                assert model.generate(question, **lengths, **settings).shape == (1, longest + 1)

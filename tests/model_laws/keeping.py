"""What a configuration, a seed and a folder determine."""

from collections import defaultdict
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from .family import VOCAB, Choices, ModelFamily, answer_batch, assert_near, question_batch


def tied_names(model: PreTrainedModel) -> list[list[str]]:
    """The names of each tensor that goes by more than one."""
    names = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter.data_ptr()].append(name)
    return sorted(group for group in names.values() if len(group) > 1)


def assert_same_model(actual: PreTrainedModel, expected: PreTrainedModel) -> None:
    """Bit by bit: weights, buffers that no file holds, ties and logits."""
    assert actual.state_dict().keys() == expected.state_dict().keys()
    buffers = dict(actual.named_buffers())
    assert buffers.keys() == dict(expected.named_buffers()).keys()
    for name, tensor in [*expected.named_parameters(), *expected.named_buffers()]:
        assert torch.equal(buffers[name] if name in buffers else actual.get_parameter(name), tensor), name
    assert tied_names(actual) == tied_names(expected)
    batch = {**question_batch(), **answer_batch()}
    batch = {name: ids.clamp(max=expected.config.vocab_size - 1) for name, ids in batch.items()}
    assert torch.equal(actual(**batch).logits, expected(**batch).logits)


class KeepingLaws(ModelFamily):
    """Configurations, seeds, folders and resized vocabularies."""

    def test_saved_configuration_comes_back_equal(self, every: Choices, tmp_path: Path) -> None:
        config = self.config(every, dropout=0.25)
        config.save_pretrained(tmp_path)
        loaded = self.config_class.from_pretrained(tmp_path)
        assert loaded.to_dict() == config.to_dict()
        for field, value in every:
            if field != "attn_implementation":
                assert getattr(loaded, field) == value

    def test_a_seed_determines_the_initial_weights(self, pairwise: Choices) -> None:
        first, again = (self.new_model(pairwise, noise=0.0).state_dict() for _ in range(2))
        assert all(torch.equal(again[name], tensor) for name, tensor in first.items())
        torch.manual_seed(1)
        other = self.model_class(self.config(pairwise)).state_dict()
        matrices = [name for name, tensor in first.items() if tensor.dim() > 1]
        assert not [name for name in matrices if torch.equal(other[name], first[name])]

    @pytest.mark.parametrize(("max_shard_size", "sharded"), [("1GB", False), ("30KB", True)])
    def test_saved_model_comes_back_whole(
        self, pairwise: Choices, tmp_path: Path, max_shard_size: str, sharded: bool
    ) -> None:
        model = self.model(pairwise)
        model.save_pretrained(tmp_path, max_shard_size=max_shard_size)
        assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == sharded
        loaded, info = AutoModelForSeq2SeqLM.from_pretrained(
            tmp_path, output_loading_info=True, attn_implementation=model.config._attn_implementation
        )
        assert type(loaded) is self.model_class
        assert not any(info[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert_same_model(loaded, model)

    @pytest.mark.parametrize("size", [VOCAB + 10, VOCAB - 8])
    def test_resized_vocabulary_keeps_the_old_logits(self, pairwise: Choices, tmp_path: Path, size: int) -> None:
        model, old = self.new_model(pairwise), self.model(pairwise)
        ids = {name: ids.clamp(max=VOCAB - 9) for name, ids in {**question_batch(), **answer_batch()}.items()}
        kept = min(size, VOCAB)
        model.resize_token_embeddings(size)
        logits = model(**ids).logits
        assert model.config.vocab_size == logits.shape[-1] == size
        assert_near(logits[..., :kept], old(**ids).logits[..., :kept])
        assert tied_names(model) == tied_names(old)
        assert not [name for name, parameter in model.named_parameters() if VOCAB in parameter.shape]
        new = torch.tensor([[size - 1]])
        answers = model.generate(new, max_new_tokens=4, min_new_tokens=4)
        assert answers.shape == (1, 5)
        assert answers.max() < size
        assert model(input_ids=new, labels=new).loss.isfinite()
        model.save_pretrained(tmp_path)
        implementation = model.config._attn_implementation
        assert_same_model(self.model_class.from_pretrained(tmp_path, attn_implementation=implementation), model)

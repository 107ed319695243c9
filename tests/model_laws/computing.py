"""Other ways to compute the same: attention implementations, half precision, compiled graphs."""

import copy

import pytest
import torch

from .family import Choices, ModelFamily, answer_batch, assert_near, question_batch, real

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def batch_of(side: str) -> dict[str, torch.Tensor]:
    """Questions and answers padded on one side, or not at all."""
    return {**question_batch(side), **answer_batch(side)}


class ComputingLaws(ModelFamily):
    """The same logits, however they are computed."""

    @pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
    @pytest.mark.parametrize("device", DEVICES)
    def test_attention_implementation_agrees_with_eager(
        self, every: Choices, implementation: str, device: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if device == "cpu":
            # For a CPU, flex attention takes most of a minute to compile; uncompiled it gives the same numbers.
            monkeypatch.setattr(torch, "compile", lambda function, **_: function)
        eager, other = (
            copy.deepcopy(self.model((*every, ("attn_implementation", name)))).to(device)
            for name in ("eager", implementation)
        )
        assert other.config._attn_implementation == implementation
        with torch.no_grad():
            for side in ("none", "left", "right"):
                batch = {name: tensor.to(device) for name, tensor in batch_of(side).items()}
                tokens = real(batch["decoder_input_ids"]).bool()
                assert_near(other(**batch).logits[tokens], eager(**batch).logits[tokens])

    def test_half_precision_stays_close(self, every: Choices) -> None:
        """Some 60 roundings follow each other, of at most 2⁻⁸ each: taken as independent, √60 · 2⁻⁸ together."""
        model, batch = self.new_model(every, noise=0.0), batch_of("right")
        tokens = real(batch["decoder_input_ids"]).bool()
        with torch.no_grad():
            expected = model(**batch).logits[tokens]
            with torch.autocast("cpu", torch.bfloat16):
                mixed = model(**batch).logits[tokens].float()
            half = model.to(torch.bfloat16)(**batch).logits[tokens]
        assert half.dtype == torch.bfloat16
        for logits in (mixed, half.float()):
            assert 0 < (logits - expected).norm() / expected.norm() < 60**0.5 * 2**-8

    @pytest.mark.parametrize("device", DEVICES)
    def test_model_compiles_into_one_graph(self, each: Choices, device: str) -> None:
        # Every layer of a side is traced alike: one is enough.
        self.check_compiled(each, device, ("right",), encoder_layers=1, decoder_layers=1)

    def test_compiled_model_takes_other_shapes(self) -> None:
        self.check_compiled((), "cpu", ("right", "none"), encoder_layers=1, decoder_layers=1)

    def check_compiled(self, choices: Choices, device: str, sides: tuple[str, ...], **changes: int) -> None:
        """Compare the logits of a model compiled without any break to those of the model."""
        torch._dynamo.reset()
        model = self.new_model(choices, **changes).to(device)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        for index, side in enumerate(sides):
            # Of its own number of rows and lengths.
            cut = slice(0, 3 - index), slice(0, 7 - index)
            batch = {name: tensor[cut].to(device) for name, tensor in batch_of(side).items()}
            with torch.no_grad():
                assert_near(compiled(**batch).logits, model(**batch).logits)
        torch._dynamo.reset()

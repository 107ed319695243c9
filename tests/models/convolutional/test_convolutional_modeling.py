"""What is the convolutional network's own: the paper's equations by hand, what it can see, its cache and weights."""

import itertools
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

from model_laws.family import PAD, VOCAB, answer_batch, assert_near, padded, question_batch, random_ids, real
from wenzhen.models.convolutional.configuration_convolutional import WenzhenConvolutionalConfig
from wenzhen.models.convolutional.modeling_convolutional import (
    WenzhenConvolutionalAttention,
    WenzhenConvolutionalForConditionalGeneration,
    WenzhenConvolutionalGate,
)
from wenzhen.models.saving import save_with_code

D, POSITIONS = 12, 40


def make_model(noise: float = 0.0, **changes) -> WenzhenConvolutionalForConditionalGeneration:
    """A tiny model in eval mode; noise makes biases random too."""
    shape = {
        "vocab_size": VOCAB,
        "d_model": D,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_position_embeddings": POSITIONS,
        "dropout": 0.0,
    }
    torch.manual_seed(0)
    model = WenzhenConvolutionalForConditionalGeneration(WenzhenConvolutionalConfig(**{**shape, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
    return model


# The paper's equations, position by position


def gated(conv: WenzhenConvolutionalGate, states: list[torch.Tensor], first: int) -> list[torch.Tensor]:
    """v(W [x_{i+first} … x_{i+first+k-1}] + b) of every position i, where nothing stands beyond the ends."""
    outputs = []
    for i in range(len(states)):
        output = conv.bias.clone()
        for step in range(conv.weight.shape[2]):
            if 0 <= i + first + step < len(states):
                output = output + conv.weight[:, :, step] @ states[i + first + step]
        half = len(output) // 2
        outputs.append(output[:half] * (1 / (1 + torch.exp(-output[half:]))))
    return outputs


def by_the_paper(
    model: WenzhenConvolutionalForConditionalGeneration, question: list[int], answer: list[int]
) -> torch.Tensor:
    """The logits `[target_length, vocab_size]` of one question and answer."""
    k, encoder, decoder = model.config.kernel_size, model.model.encoder, model.model.decoder
    half = math.sqrt(0.5)
    e = [encoder.embed_tokens.weight[t] + encoder.embed_positions.weight[j] for j, t in enumerate(question)]
    z = e
    for layer in encoder.layers:
        z = [half * (v + x) for v, x in zip(gated(layer.conv, z, -(k // 2)), z, strict=True)]
    g = [decoder.embed_tokens.weight[t] + decoder.embed_positions.weight[i] for i, t in enumerate(answer)]
    h, m = g, len(question)
    for layer in decoder.layers:
        h = [half * (v + x) for v, x in zip(gated(layer.conv, h, 1 - k), h, strict=True)]
        for i in range(len(h)):
            d = layer.cross_attn.q_proj.weight @ h[i] + layer.cross_attn.q_proj.bias + g[i]
            powers = [math.exp(d @ z_j) for z_j in z]
            c = sum(power / sum(powers) * (z[j] + e[j]) for j, power in enumerate(powers))
            h[i] = h[i] + m * math.sqrt(1 / m) * c
    return torch.stack([model.lm_head.weight @ state for state in h])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kernel_size", "encoder_layers", "decoder_layers"), [(3, 2, 2), (5, 1, 3), (1, 1, 1)])
@torch.no_grad()
def test_logits_are_those_of_the_papers_equations(kernel_size, encoder_layers, decoder_layers, tied):
    model = make_model(
        noise=0.3,
        kernel_size=kernel_size,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        tie_word_embeddings=tied,
    ).double()
    for side in ("none", "left", "right"):
        batch = {**question_batch(side), **answer_batch(side)}
        logits = model(**batch).logits
        for row in range(3):
            question, answer = batch["input_ids"][row], batch["decoder_input_ids"][row]
            expected = by_the_paper(model, question[question != PAD].tolist(), answer[answer != PAD].tolist())
            assert_near(logits[row, answer != PAD], expected, atol=1e-10)


@torch.no_grad()
def test_gate_equals_gate_number_by_number():
    config = WenzhenConvolutionalConfig(d_model=2, kernel_size=3)
    gate = WenzhenConvolutionalGate(config, padding=0)
    torch.nn.init.normal_(gate.bias)
    states = torch.randn(1, 5, 2, generator=torch.Generator().manual_seed(1))
    output, rows, weight, bias = gate(states)[0], states[0].tolist(), gate.weight.tolist(), gate.bias.tolist()
    assert output.shape == (3, 2)
    for i, feature in itertools.product(range(3), range(2)):
        a, b = (
            bias[channel] + sum(weight[channel][x][t] * rows[i + t][x] for x in range(2) for t in range(3))
            for channel in (feature, 2 + feature)
        )
        assert output[i, feature].item() == pytest.approx(a / (1 + math.exp(-b)), abs=1e-6)


@torch.no_grad()
def test_attention_equals_attention_number_by_number():
    attention = WenzhenConvolutionalAttention(WenzhenConvolutionalConfig(d_model=2))
    generator = torch.Generator().manual_seed(2)
    states, embeddings, encoded = (torch.randn(1, n, w, generator=generator) for n, w in ((3, 2), (3, 2), (4, 4)))
    contexts, weights = attention(states, embeddings, encoded, torch.tensor([[0, 1, 1, 1]]))
    weight, bias = attention.q_proj.weight.tolist(), attention.q_proj.bias.tolist()
    keys, values = encoded[0, 1:, :2].tolist(), encoded[0, 1:, 2:].tolist()
    assert weights.shape == (1, 1, 3, 4)
    for i, (h, g) in enumerate(zip(states[0].tolist(), embeddings[0].tolist(), strict=True)):
        d = [sum(w * x for w, x in zip(weight[f], h, strict=True)) + bias[f] + g[f] for f in range(2)]
        powers = [math.exp(d[0] * key[0] + d[1] * key[1]) for key in keys]
        expected = [power / sum(powers) for power in powers]
        assert weights[0, 0, i].tolist() == pytest.approx([0, *expected], abs=1e-6)
        for f in range(2):
            mean = sum(p * value[f] for p, value in zip(expected, values, strict=True))
            assert contexts[0, i, f].item() == pytest.approx(mean, abs=1e-6)


# What it can see


@pytest.mark.parametrize(("layers", "kernel_size"), [(1, 3), (3, 3), (2, 5), (4, 1)])
def test_receptive_field_is_one_and_kernel_size_less_one_for_each_layer(layers, kernel_size):
    model = make_model(noise=0.3, encoder_layers=layers, decoder_layers=layers, kernel_size=kernel_size)
    length, seen = 25, 1 + layers * (kernel_size - 1)
    middle, embeddings = length // 2, {}
    for side in ("encoder", "decoder"):
        table = model.get_submodule(f"model.{side}").embed_tokens.weight
        embeddings[side] = table[random_ids(1, length)].detach().requires_grad_()
    keys = model.get_encoder()(inputs_embeds=embeddings["encoder"]).last_hidden_state[..., :D]
    question = random_ids(1, 3, seed=2)
    logits = model(input_ids=question, decoder_inputs_embeds=embeddings["decoder"]).logits
    fields = {
        "encoder": (keys, range(middle - seen // 2, middle + seen // 2 + 1)),
        "decoder": (logits, range(length - seen, length)),
    }
    for side, (output, expected) in fields.items():
        position = middle if side == "encoder" else length - 1
        probe = torch.randn(output.shape[-1], generator=torch.Generator().manual_seed(3))
        (gradient,) = torch.autograd.grad(output[0, position] @ probe, embeddings[side])
        assert gradient[0].abs().amax(1).nonzero().flatten().tolist() == list(expected)
        assert len(expected) == seen


# Cache


def decode(model, cache, ids):
    """Logits of the next tokens of answers to two questions."""
    questions = padded(random_ids(2, 5), 6, "left")
    return model(
        input_ids=questions,
        attention_mask=real(questions),
        decoder_input_ids=ids,
        past_key_values=cache,
        use_cache=True,
    )


@pytest.mark.parametrize("kernel_size", [3, 7])
@torch.no_grad()
def test_cache_keeps_what_the_next_convolutions_read_and_not_more(kernel_size):
    model, ids = make_model(noise=0.2, kernel_size=kernel_size), random_ids(2, 12)
    cache = None
    for start in range(12):
        cache = decode(model, cache, ids[:, start : start + 1]).past_key_values
        for layer in cache.self_attention_cache.layers:
            assert layer.keys.shape == (2, 1, min(start + 1, kernel_size - 1), D)
            assert not layer.values.numel()
        assert cache.get_seq_length() == start + 1
        assert not cache.cross_attention_cache.layers


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@torch.no_grad()
def test_cache_follows_rows_that_move_multiply_or_leave(kernel_size):
    """As beam search and its kin have it."""
    model, ids = make_model(noise=0.2, kernel_size=kernel_size).double(), random_ids(2, 9)
    whole = decode(model, None, ids).logits
    for move in ("reorder_cache", "batch_select_indices"):
        cache = decode(model, None, ids[:, :7]).past_key_values
        getattr(cache, move)(torch.tensor([0, 0]))
        both = decode(model, cache, ids[:1, 7:].repeat(2, 1)).logits
        assert_near(both[0], whole[0, 7:], atol=1e-12)
    cache = decode(model, None, ids[:, :7]).past_key_values
    cache.batch_repeat_interleave(2)
    questions = padded(random_ids(2, 5), 6, "left").repeat_interleave(2, 0)
    repeated = model(
        input_ids=questions,
        attention_mask=real(questions),
        decoder_input_ids=ids[:, 7:].repeat_interleave(2, 0),
        past_key_values=cache,
    )
    assert_near(repeated.logits, whole[:, 7:].repeat_interleave(2, 0), atol=1e-12)


@torch.no_grad()
def test_a_cache_that_keeps_everything_gives_the_same():
    model, ids = make_model(noise=0.2).double(), random_ids(2, 9)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    pieces = [decode(model, cache, ids[:, start:stop]).logits for start, stop in ((0, 1), (1, 4), (4, 9))]
    assert_near(torch.cat(pieces, 1), decode(model, None, ids).logits, atol=1e-12)


@pytest.mark.parametrize("implementation", ["dynamic", "static"])
def test_generation_in_a_cache_heeds_the_mask_of_an_answers_beginning(implementation):
    model, question = make_model(noise=0.3).double(), random_ids(1, 6)
    begun = {"decoder_input_ids": torch.tensor([[2, PAD, PAD, 8, 9]])}
    mask = {"decoder_attention_mask": real(begun["decoder_input_ids"])}
    lengths = {"max_new_tokens": 9, "min_new_tokens": 9}
    expected = model.generate(question, **begun, **mask, **lengths, use_cache=False)
    cached = model.generate(question, **begun, **mask, **lengths, cache_implementation=implementation)
    assert torch.equal(cached, expected)
    assert not torch.equal(model.generate(question, **begun, **lengths), expected)


# Dropout


def test_dropout_is_on_embeddings_inputs_of_convolutions_and_the_decoders_output():
    model, shares = make_model(d_model=64, dropout=0.4).train(), []

    def record(_, inputs, output):
        shares.append((output[inputs[0] != 0] == 0).float().mean().item())

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(record)
    model(**question_batch("none"), **answer_batch("none"))
    assert shares == pytest.approx([0.4] * (2 + 4 + 1), abs=0.06)


# Weights


@pytest.mark.parametrize("tied", [True, False])
def test_tables_are_one_or_three(tied, tmp_path):
    model = make_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    for each in (model, WenzhenConvolutionalForConditionalGeneration.from_pretrained(tmp_path)):
        stacks = (each.model.encoder.embed_tokens, each.model.decoder.embed_tokens, each.lm_head)
        assert len({id(stack.weight) for stack in stacks}) == (1 if tied else 3)
        each.resize_token_embeddings(VOCAB + 10)
        assert {stack.weight.shape for stack in (each.get_decoder().embed_tokens, each.lm_head)} == {(VOCAB + 10, D)}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kernel_size", [3, 5])
@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(2, 2), (1, 3)])
def test_number_of_parameters_follows_from_the_shape(encoder_layers, decoder_layers, kernel_size, tied):
    model = make_model(
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        kernel_size=kernel_size,
        tie_word_embeddings=tied,
    )
    convolution = kernel_size * D * 2 * D + 2 * D
    expected = encoder_layers * convolution + decoder_layers * (convolution + D * D + D)
    expected += VOCAB * D * (1 if tied else 3) + 2 * POSITIONS * D
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_weights_keep_the_names_that_saved_models_have():
    layers = {"encoder": ["conv"], "decoder": ["conv", "cross_attn.q_proj"]}
    expected = {"model.shared.weight", "lm_head.weight"}
    for side, modules in layers.items():
        expected |= {f"model.{side}.embed_tokens.weight", f"model.{side}.embed_positions.weight"}
        for layer, name, part in itertools.product((0, 1), modules, ("weight", "bias")):
            expected.add(f"model.{side}.layers.{layer}.{name}.{part}")
    assert make_model().state_dict().keys() == expected


# Initial values


@pytest.mark.parametrize(("dropout", "kernel_size", "tied"), [(0.0, 3, True), (0.25, 5, False)])
def test_weights_start_as_the_paper_has_them(dropout, kernel_size, tied):
    d, kept = 64, 1 - dropout
    model = make_model(vocab_size=1000, d_model=d, dropout=dropout, kernel_size=kernel_size, tie_word_embeddings=tied)
    deviations = {
        "embed_tokens.weight": 0.1,
        "embed_positions.weight": 0.1,
        "conv.weight": math.sqrt(4 * kept / (kernel_size * d)),
        "q_proj.weight": math.sqrt(1 / d),
        "lm_head.weight": 0.1 if tied else math.sqrt(kept / d),
    }
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.endswith("bias"):
            assert not parameter.any(), name
        for suffix, deviation in deviations.items():
            if name.endswith(suffix):
                assert parameter.std().item() == pytest.approx(deviation, rel=0.05), name
                assert abs(parameter.mean().item()) < 0.05 * deviation, name
    assert not model.model.encoder.embed_tokens.weight[PAD].any()
    assert not model.model.decoder.embed_tokens.weight[PAD].any()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_gate_keeps_the_variance_of_a_small_input_under_dropout(dropout):
    model = make_model(d_model=128, encoder_layers=1, decoder_layers=1, dropout=dropout).train()
    layer = model.model.encoder.layers[0]
    states = 0.1 * torch.randn(8, 200, 128, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        output = layer.conv(layer.dropout(states))[:, 1:-1]
    assert (output.var() / states.var()).item() == pytest.approx(1, rel=0.06)


# Without the package

LOAD_AND_PRINT = """
import json, sys
sys.modules["wenzhen"] = None
import torch
from transformers import AutoModelForSeq2SeqLM
model = AutoModelForSeq2SeqLM.from_pretrained({folder!r}, trust_remote_code=True)
answers = model.generate(torch.tensor([[5, 6, 7, 3]]), max_new_tokens=12, min_new_tokens=12, num_beams=2)
print(json.dumps([type(model).__module__, answers.tolist()]))
"""


def test_a_folder_loads_with_its_own_code_where_the_package_is_missing(tmp_path):
    model, folder = make_model(noise=0.3), tmp_path / "model"
    folder.mkdir()
    save_with_code(model, folder)
    assert {path.name for path in folder.glob("*.py")} == {
        "configuration_convolutional.py",
        "modeling_convolutional.py",
    }
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    code = LOAD_AND_PRINT.format(folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    module, answers = json.loads(done.stdout.splitlines()[-1])
    assert module.startswith("transformers_modules.")
    expected = model.generate(torch.tensor([[5, 6, 7, 3]]), max_new_tokens=12, min_new_tokens=12, num_beams=2)
    assert answers == expected.tolist()

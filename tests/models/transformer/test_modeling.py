"""What is the Transformer's own: its positions, its attention by hand, its weights and their initial values."""

import itertools
import math

import pytest
import torch
from torch import nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

from model_laws.family import PAD, VOCAB, answer_batch, assert_near, question_batch
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import (
    WenzhenAttention,
    WenzhenCrossAttention,
    WenzhenDropout,
    WenzhenForConditionalGeneration,
    WenzhenLinearCrossEntropy,
    WenzhenSelfAttention,
    WenzhenSinusoidalPositions,
)

D, D_FF, HEADS, POSITIONS = 32, 48, 4, 40
SCORES = ("scaled_dot", "dot", "additive", "bilinear")
OTHER_SCORES = SCORES[1:]


def make_model(**changes) -> WenzhenForConditionalGeneration:
    """A tiny model with the weights that training starts with, in eval mode."""
    shape = {
        "vocab_size": VOCAB,
        "d_model": D,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention_heads": HEADS,
        "d_ff": D_FF,
        "max_position_embeddings": POSITIONS,
        "dropout": 0.0,
    }
    torch.manual_seed(0)
    return WenzhenForConditionalGeneration(WenzhenConfig(**{**shape, **changes})).eval()


def batch() -> dict[str, torch.Tensor]:
    return {**question_batch(), **answer_batch("none")}


def random_states(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def row_of(weight: torch.Tensor, bias: torch.Tensor, vector: list[float]) -> list[float]:
    """W·x + b, number by number."""
    return [
        sum(w * x for w, x in zip(weights, vector, strict=True)) + b
        for weights, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


# Flash attention


def flash_stand_in(module, query, key, value, attention_mask, scaling, **_):
    """What transformers' flash attention makes of its mask `[batch, length]`: the queries' as well as the keys'."""
    visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool)
    visible = visible.tril() if module.is_causal else visible
    if attention_mask is not None:
        assert query.shape[2] == key.shape[2] == attention_mask.shape[1]
        visible = visible & attention_mask.bool()[:, None, None]
    output = nn.functional.scaled_dot_product_attention(query, key, value, visible, scale=scaling)
    # A padded query on the left sees nothing.
    return output.nan_to_num(0.0).transpose(1, 2), None


@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_flash_attention_never_takes_the_questions_mask_for_the_answers(side):
    AttentionInterface.register("stand_in", flash_stand_in)
    AttentionMaskInterface.register("stand_in", flash_attention_mask)
    model, inputs = make_model(), {**question_batch(side), **answer_batch(side)}
    logits = {}
    for implementation in ("eager", "stand_in"):
        model.set_attn_implementation(implementation)
        logits[implementation] = model(**inputs).logits[inputs["decoder_input_ids"] != PAD]
    assert_near(logits["stand_in"], logits["eager"])


# Positions


@pytest.mark.parametrize("position", [0, 1, 7, POSITIONS - 1])
@pytest.mark.parametrize("pair", [0, 1, 9, D // 2 - 1])
def test_positions_are_the_papers_sines_and_cosines(position, pair):
    table = WenzhenSinusoidalPositions(WenzhenConfig(d_model=D, max_position_embeddings=POSITIONS)).weight
    angle = position / 10000 ** (2 * pair / D)
    assert table.shape == (POSITIONS, D)
    assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-7)
    assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_learned_positions_that_hold_the_sines_are_sinusoidal_positions():
    sinusoidal, learned = make_model(), make_model(positions="learned")
    result = learned.load_state_dict(sinusoidal.state_dict(), strict=False)
    assert sorted(result.missing_keys) == ["model.decoder.positions.weight", "model.encoder.positions.weight"]
    assert not result.unexpected_keys
    for side in ("encoder", "decoder"):
        table = learned.get_submodule(f"model.{side}.positions").weight
        assert isinstance(table, nn.Parameter)
        assert table.shape == (POSITIONS, D)
        with torch.no_grad():
            table.copy_(sinusoidal.get_submodule(f"model.{side}.positions").weight)
    assert torch.equal(learned(**batch()).logits, sinusoidal(**batch()).logits)


def test_sinusoidal_positions_are_no_parameters():
    assert not [name for name in make_model().state_dict() if "positions" in name]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_layers_begin_with_scaled_embedding_plus_position(positions):
    model = make_model(positions=positions)
    states = model(**batch(), output_hidden_states=True)
    ids = {"encoder": batch()["input_ids"], "decoder": batch()["decoder_input_ids"]}
    for side, tokens in ids.items():
        embeddings = model.model.shared.weight[tokens[0, :5]]
        table = model.get_submodule(f"model.{side}.positions").weight
        assert_near(states[f"{side}_hidden_states"][0][0, :5], math.sqrt(D) * embeddings + table[:5])


# Feed-forward by hand

ACTIVATIONS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_equals_feed_forward_by_hand(activation):
    mlp = make_model(activation_function=activation).model.decoder.layers[1].mlp
    with torch.no_grad():
        mlp.fc1.bias.normal_()
        mlp.fc2.bias.normal_()
    states = torch.randn(3, D, generator=torch.Generator().manual_seed(10))
    for state, output in zip(states.tolist(), mlp(states), strict=True):
        inner = [ACTIVATIONS[activation](x) for x in row_of(mlp.fc1.weight, mlp.fc1.bias, state)]
        assert_near(output, torch.tensor(row_of(mlp.fc2.weight, mlp.fc2.bias, inner)))


# Attention by hand


def score_of(attention: WenzhenAttention, head: int, query: list[float], key: list[float]) -> float:
    """How well a key suits a query, by the formula of each score."""
    product = sum(q * k for q, k in zip(query, key, strict=True))
    match attention.config.attention_score:
        case "scaled_dot":
            return product / math.sqrt(len(query))
        case "dot":
            return product
        case "additive":
            vector = attention.score_vector[head].tolist()
            return sum(v * math.tanh(k + q) for v, k, q in zip(vector, key, query, strict=True))
        case "bilinear":
            matrix = attention.score_matrix[head].tolist()
            return sum(k * w * q for k, row in zip(key, matrix, strict=True) for w, q in zip(row, query, strict=True))
    raise AssertionError


def attend_by_hand(
    attention: WenzhenAttention,
    queries: list[list[float]],
    keys: list[list[float]],
    values: list[list[float]],
    visible: list[list[bool]],
) -> tuple[list[list[float]], list[list[list[float]]]]:
    """Outputs `[target][d]` and weights `[head][target][source]` of projected queries, keys and values."""
    size, outputs, weights = attention.head_dim, [], []
    for head in range(attention.config.attention_heads):
        part = slice(head * size, (head + 1) * size)
        weights.append([])
        for query, seen in zip(queries, visible, strict=True):
            powers = [
                math.exp(score_of(attention, head, query[part], key[part])) if may else 0.0
                for key, may in zip(keys, seen, strict=True)
            ]
            weights[head].append([power / sum(powers) for power in powers])
    for target in range(len(queries)):
        joined = [
            sum(weights[feature // size][target][source] * values[source][feature] for source in range(len(values)))
            for feature in range(len(values[0]))
        ]
        outputs.append(row_of(attention.out_proj.weight, attention.out_proj.bias, joined))
    return outputs, weights


def make_attention(kind: type[WenzhenAttention], score: str, **settings) -> WenzhenAttention:
    """Three heads of width 2 with random weights and biases."""
    config = WenzhenConfig(d_model=6, attention_heads=3, attention_score=score, attn_implementation="eager")
    attention = kind(config, layer_idx=0, **settings)
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return attention


def additive_mask(visible: list[list[bool]]) -> torch.Tensor:
    return torch.zeros(len(visible), len(visible[0])).masked_fill(~torch.tensor(visible), -1e30)[None, None]


@pytest.mark.parametrize("score", SCORES)
def test_self_attention_equals_attention_by_hand(score):
    attention = make_attention(WenzhenSelfAttention, score, is_causal=True)
    states = torch.randn(4, 6, generator=torch.Generator().manual_seed(9))
    visible = [[source <= target for source in range(4)] for target in range(4)]
    projected = [row_of(attention.qkv_proj.weight, attention.qkv_proj.bias, row) for row in states.tolist()]
    queries, keys, values = ([row[6 * part : 6 * part + 6] for row in projected] for part in range(3))
    expected, expected_weights = attend_by_hand(attention, queries, keys, values, visible)
    output, weights = attention(states[None], additive_mask(visible))
    assert_near(output[0], torch.tensor(expected))
    assert_near(weights[0], torch.tensor(expected_weights))


@pytest.mark.parametrize("score", SCORES)
def test_cross_attention_equals_attention_by_hand(score):
    attention = make_attention(WenzhenCrossAttention, score)
    targets, sources = (torch.randn(n, 6, generator=torch.Generator().manual_seed(n)) for n in (2, 5))
    visible = [[True, True, True, False, False]] * 2
    queries = [row_of(attention.q_proj.weight, attention.q_proj.bias, row) for row in targets.tolist()]
    projected = [row_of(attention.kv_proj.weight, attention.kv_proj.bias, row) for row in sources.tolist()]
    keys, values = ([row[6 * part : 6 * part + 6] for row in projected] for part in range(2))
    expected, expected_weights = attend_by_hand(attention, queries, keys, values, visible)
    output, weights = attention(targets[None], sources[None], additive_mask(visible))
    assert_near(output[0], torch.tensor(expected))
    assert_near(weights[0], torch.tensor(expected_weights))


# Attention implementations


def test_scores_get_the_attention_that_can_compute_them(tmp_path):
    assert make_model().config._attn_implementation == "sdpa"
    for score in OTHER_SCORES:
        model = make_model(attention_score=score)
        assert model.config._attn_implementation == "eager"
        model.save_pretrained(tmp_path / score)
        loaded = WenzhenForConditionalGeneration.from_pretrained(tmp_path / score)
        assert loaded.config._attn_implementation == "eager"


@pytest.mark.parametrize("implementation", ["sdpa", "flash_attention_2", "flex_attention"])
@pytest.mark.parametrize("score", OTHER_SCORES)
def test_other_scores_refuse_other_attention_by_name(score, implementation, tmp_path):
    refused = rf"{score}.*eager.*{implementation}"
    with pytest.raises(ValueError, match=refused):
        make_model(attention_score=score, attn_implementation=implementation)
    model = make_model(attention_score=score)
    with pytest.raises(ValueError, match=refused):
        model.set_attn_implementation(implementation)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=refused):
        WenzhenForConditionalGeneration.from_pretrained(tmp_path, attn_implementation=implementation)
    assert model.config._attn_implementation == "eager"
    assert model(**batch()).logits.isfinite().all()


def test_training_drops_no_attention_weight_under_eager():
    model = make_model(dropout=0.5, attn_implementation="eager").train()
    outputs = model(**batch(), output_attentions=True)
    for weights in (*outputs.encoder_attentions, *outputs.decoder_attentions, *outputs.cross_attentions):
        assert_near(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_training_drops_no_attention_weight_under_sdpa(monkeypatch):
    rates = []
    attention = nn.functional.scaled_dot_product_attention

    def record(*args, **kwargs):
        rates.append(kwargs["dropout_p"])
        return attention(*args, **kwargs)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", record)
    make_model(dropout=0.5).train()(**batch())
    # Two encoder layers with one attention each, two decoder layers with two.
    assert rates == [0.0] * 6


# Dropout


def test_dropout_keeps_the_mean_and_drops_each_element_by_itself():
    torch.manual_seed(3)
    rate, ones = 0.3, torch.ones(401, 1001, requires_grad=True)
    dropped = WenzhenDropout(rate).train()(ones)
    zero = (dropped == 0).double()
    # Five standard deviations of 401,401 draws.
    assert abs(zero.mean() - rate) < 5 * (rate * (1 - rate) / zero.numel()) ** 0.5
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - rate)], rel=2e-5)
    # One random number decides on four neighbours: they are independent all the same.
    for distance in (1, 2, 3, 4, 1001):
        both = (zero.flatten()[:-distance] * zero.flatten()[distance:]).mean()
        assert abs(both - rate**2) < 5 * (rate**2 * (1 - rate**2) / zero.numel()) ** 0.5
    dropped.sum().backward()
    assert torch.equal(ones.grad, dropped.detach())


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.3, False)])
def test_dropout_that_drops_nothing_changes_nothing(rate, training):
    states = random_states(3, 5)
    assert torch.equal(WenzhenDropout(rate).train(training)(states), states)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dropout_keeps_the_type(dtype):
    assert WenzhenDropout(0.5).train()(torch.ones(7, dtype=dtype)).dtype == dtype


# Loss


@pytest.mark.parametrize("multiple", [1, 64])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [1, 3 * VOCAB, 1000 * VOCAB])
def test_fused_output_layer_and_loss_equal_the_two_apart(monkeypatch, chunk, smoothing, multiple):
    monkeypatch.setattr(WenzhenLinearCrossEntropy, "CHUNK", chunk)
    monkeypatch.setattr(WenzhenLinearCrossEntropy, "MULTIPLE", {"cpu": multiple})
    inputs = (random_states(7, D).double(), random_states(VOCAB, D).double())
    labels = torch.arange(7) * 6
    losses, gradients = [], []
    for fused in (True, False):
        states, weight = (tensor.clone().requires_grad_() for tensor in inputs)
        if fused:
            loss = WenzhenLinearCrossEntropy.apply(states, weight, labels, smoothing)
        else:
            logits = states @ weight.T
            loss = nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        losses.append(loss)
        gradients.append(torch.autograd.grad(3 * loss, (states, weight)))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)


# Weights


def assert_tied(model: WenzhenForConditionalGeneration) -> None:
    tables = (
        model.model.shared.weight,
        model.model.encoder.embed_tokens.weight,
        model.model.decoder.embed_tokens.weight,
        model.lm_head.weight,
    )
    assert len({table.data_ptr() for table in tables}) == 1
    assert len({id(table) for table in tables}) == 1


def test_one_table_serves_encoder_decoder_and_output(tmp_path):
    model = make_model()
    assert_tied(model)
    model.save_pretrained(tmp_path)
    assert_tied(WenzhenForConditionalGeneration.from_pretrained(tmp_path))
    model.resize_token_embeddings(VOCAB + 10)
    assert_tied(model)


def test_untied_tables_are_three(tmp_path):
    model = make_model(tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    for untied in (model, WenzhenForConditionalGeneration.from_pretrained(tmp_path)):
        tables = {name for name, parameter in untied.named_parameters() if VOCAB in parameter.shape}
        assert tables == {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
        assert not hasattr(untied.model, "shared")
    model.resize_token_embeddings(VOCAB + 10)
    assert {model.get_parameter(name).shape for name in tables} == {(VOCAB + 10, D)}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(2, 2), (1, 3)])
def test_number_of_parameters_follows_from_the_shape(encoder_layers, decoder_layers, norm, positions, score, tied):
    model = make_model(
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        norm=norm,
        positions=positions,
        attention_score=score,
        tie_word_embeddings=tied,
    )
    head_dim = D // HEADS
    own = {"additive": HEADS * head_dim, "bilinear": HEADS * head_dim * head_dim}
    attention = 4 * (D * D + D) + own.get(score, 0)
    mlp = (D * D_FF + D_FF) + (D_FF * D + D)
    layer_norm = 2 * D
    expected = encoder_layers * (attention + mlp + 2 * layer_norm)
    expected += decoder_layers * (2 * attention + mlp + 3 * layer_norm)
    expected += VOCAB * D * (1 if tied else 3)
    expected += 2 * layer_norm * (norm == "pre") + 2 * POSITIONS * D * (positions == "learned")
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def names_of_weights(norm: str = "post") -> set[str]:
    """Where every weight of a 2+2 tied model stands in a file."""
    attention = {"encoder": ["self_attn"], "decoder": ["self_attn", "cross_attn"]}
    projections = {"self_attn": ["qkv_proj"], "cross_attn": ["q_proj", "kv_proj"]}
    modules = []
    for side, layer in itertools.product(attention, (0, 1)):
        prefix = f"model.{side}.layers.{layer}"
        for name in attention[side]:
            modules += [f"{prefix}.{name}.{projection}" for projection in (*projections[name], "out_proj")]
        modules += [f"{prefix}.{name}_layer_norm" for name in (*attention[side], "mlp")]
        modules += [f"{prefix}.mlp.fc1", f"{prefix}.mlp.fc2"]
    if norm == "pre":
        modules += ["model.encoder.layer_norm", "model.decoder.layer_norm"]
    tables = {"model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    return {f"{name}.{part}" for name in modules for part in ("weight", "bias")} | tables | {"lm_head.weight"}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_weights_keep_the_names_that_saved_models_have(norm):
    assert make_model(norm=norm).state_dict().keys() == names_of_weights(norm)


# Initial values


@pytest.mark.parametrize("tied", [True, False])
def test_scaled_embeddings_start_with_unit_variance_and_padding_at_zero(tied):
    torch.manual_seed(0)
    config = WenzhenConfig(vocab_size=4000, d_model=32, d_ff=32, encoder_layers=1, tie_word_embeddings=tied)
    model = WenzhenForConditionalGeneration(config)
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_tokens.weight
        assert (table[1:] * math.sqrt(32)).std().item() == pytest.approx(1.0, abs=0.02)
        assert table[PAD].abs().max() == 0


def assert_uniform(weight: torch.Tensor, bound: float) -> None:
    """Within the bound, close to it, and as widely spread as a uniform distribution."""
    assert 0.95 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_projections_start_xavier_uniform_and_without_bias():
    model = make_model(d_ff=96)
    layer = model.model.encoder.layers[0]
    assert_uniform(layer.mlp.fc1.weight, math.sqrt(6 / (D + 96)))
    assert_uniform(layer.self_attn.qkv_proj.weight, math.sqrt(6 / (D + 3 * D)))
    assert_uniform(layer.self_attn.out_proj.weight, math.sqrt(6 / (D + D)))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.abs().max() == 0, name
        elif "layer_norm" in name:
            assert (parameter == 1).all(), name


@pytest.mark.parametrize(
    ("score", "name", "shape", "fans"), [("additive", "vector", (4, 64), 65), ("bilinear", "matrix", (4, 64, 64), 128)]
)
def test_scores_start_xavier_uniform_in_each_head(score, name, shape, fans):
    model = make_model(d_model=256, encoder_layers=1, decoder_layers=1, attention_score=score)
    for attention in (model.model.encoder.layers[0].self_attn, model.model.decoder.layers[0].cross_attn):
        weight = getattr(attention, f"score_{name}")
        assert weight.shape == shape
        assert_uniform(weight, math.sqrt(6 / fans))


def test_learned_positions_start_with_the_variance_of_the_sines():
    model = make_model(positions="learned", max_position_embeddings=400)
    encoder, decoder = model.model.encoder.positions.weight, model.model.decoder.positions.weight
    assert not torch.equal(encoder, decoder)
    for table in (encoder, decoder, make_model(max_position_embeddings=400).model.encoder.positions.weight):
        assert table.square().mean().item() == pytest.approx(0.5, abs=0.02)

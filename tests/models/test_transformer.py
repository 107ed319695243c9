"""The thesis' Transformer against hand-worked values, against MarianMTModel, and against itself."""

import functools
import math

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import MarianConfig, MarianMTModel

from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import (
    WenzhenForConditionalGeneration,
    WenzhenSinusoidalPositions,
)

VOCAB, D, D_FF, HEADS, POSITIONS = 50, 32, 48, 4, 40
PAD, BOS = 0, 2


def make_model(noise: float = 0.2, **changes) -> WenzhenForConditionalGeneration:
    """A tiny model in eval mode; noise makes its biases and normalizations random too, so that none can hide."""
    shape = {
        "vocab_size": VOCAB,
        "d_model": D,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention_heads": HEADS,
        "d_ff": D_FF,
        "max_position_embeddings": POSITIONS,
    }
    torch.manual_seed(0)
    model = WenzhenForConditionalGeneration(WenzhenConfig(**{**shape, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
    return model


@pytest.fixture
def model() -> WenzhenForConditionalGeneration:
    return make_model()


def random_ids(*shape: int, seed: int = 1) -> torch.Tensor:
    """Ids of ordinary characters."""
    return torch.randint(4, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def padded_batch() -> dict[str, torch.Tensor]:
    """Two questions of 9 and 5 tokens, padded on the right, and their answers' inputs."""
    input_ids = random_ids(2, 9)
    input_ids[1, 5:] = PAD
    decoder_input_ids = random_ids(2, 7, seed=2)
    decoder_input_ids[:, 0] = BOS
    return {
        "input_ids": input_ids,
        "attention_mask": (input_ids != PAD).long(),
        "decoder_input_ids": decoder_input_ids,
    }


def labelled_batch() -> dict[str, torch.Tensor]:
    """The same questions with answers of 7 and 4 tokens as labels."""
    batch = padded_batch()
    del batch["decoder_input_ids"]
    batch["labels"] = random_ids(2, 7, seed=3)
    batch["labels"][1, 4:] = -100
    return batch


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_near(actual: torch.Tensor, expected: torch.Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


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


def test_one_table_serves_encoder_decoder_and_output(model):
    assert_tied(model)


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(2, 2), (1, 3)])
def test_number_of_parameters_follows_from_the_shape(encoder_layers, decoder_layers):
    model = make_model(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    attention = 4 * (D * D + D)
    mlp = (D * D_FF + D_FF) + (D_FF * D + D)
    norm = 2 * D
    expected = (
        VOCAB * D + encoder_layers * (attention + mlp + 2 * norm) + decoder_layers * (2 * attention + mlp + 3 * norm)
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_scaled_embeddings_start_with_unit_variance_and_padding_at_zero():
    torch.manual_seed(0)
    table = WenzhenForConditionalGeneration(WenzhenConfig(vocab_size=4000, d_model=32, d_ff=32)).model.shared.weight
    assert (table[1:] * math.sqrt(32)).std().item() == pytest.approx(1.0, abs=0.02)
    assert table[PAD].abs().max() == 0


def test_projections_start_xavier_uniform():
    torch.manual_seed(0)
    model = WenzhenForConditionalGeneration(WenzhenConfig(vocab_size=VOCAB, d_model=32, d_ff=96))
    weight = model.model.encoder.layers[0].mlp.fc1.weight
    bound = math.sqrt(6 / (32 + 96))
    assert 0.98 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_resized_embeddings_stay_tied_and_keep_the_old_logits(model):
    batch = padded_batch()
    before = model(**batch).logits
    model.resize_token_embeddings(VOCAB + 10)
    after = model(**batch).logits
    assert model.config.vocab_size == after.shape[-1] == VOCAB + 10
    assert_tied(model)
    assert_near(after[..., :VOCAB], before)


@pytest.mark.parametrize(("max_shard_size", "sharded"), [("1GB", False), ("30KB", True)])
def test_saved_model_comes_back_whole(model, tmp_path, max_shard_size, sharded):
    model.save_pretrained(tmp_path, max_shard_size=max_shard_size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == sharded
    loaded, info = WenzhenForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert_tied(loaded)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    for side in ("encoder", "decoder"):
        assert torch.equal(
            loaded.get_submodule(f"model.{side}.positions").weight,
            model.get_submodule(f"model.{side}.positions").weight,
        )
    assert torch.equal(loaded(**padded_batch()).logits, model(**padded_batch()).logits)


# Positions


@pytest.mark.parametrize("position", [0, 1, 7, POSITIONS - 1])
@pytest.mark.parametrize("pair", [0, 1, 9, D // 2 - 1])
def test_positions_are_the_papers_sines_and_cosines(position, pair):
    table = WenzhenSinusoidalPositions(WenzhenConfig(d_model=D, max_position_embeddings=POSITIONS)).weight
    angle = position / 10000 ** (2 * pair / D)
    assert table.shape == (POSITIONS, D)
    assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-7)
    assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


@pytest.mark.parametrize("side", ["input_ids", "decoder_input_ids"])
def test_sequences_fill_the_position_table_and_not_more(model, side):
    batch = {"input_ids": random_ids(1, 3), "decoder_input_ids": random_ids(1, 3)}
    longest = model(**{**batch, side: random_ids(1, POSITIONS)}).logits
    assert longest.isfinite().all()
    with pytest.raises(ValueError, match=rf"{POSITIONS + 1} tokens.*`max_position_embeddings` \({POSITIONS}\)"):
        model(**{**batch, side: random_ids(1, POSITIONS + 1)})


def test_cached_tokens_count_towards_the_position_table(model):
    question, answer = random_ids(1, 3), random_ids(1, POSITIONS)
    cache = model(input_ids=question, decoder_input_ids=answer, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="max_position_embeddings"):
        model(input_ids=question, decoder_input_ids=answer[:, :1], past_key_values=cache)


# Attention and masks


@pytest.mark.parametrize("padded", [False, True])
def test_sdpa_and_eager_attention_agree(padded):
    batch = padded_batch()
    if not padded:
        batch = {"input_ids": random_ids(2, 9), "decoder_input_ids": batch["decoder_input_ids"]}
    logits = {}
    for implementation in ("sdpa", "eager"):
        model = make_model()
        model.set_attn_implementation(implementation)
        logits[implementation] = model(**batch).logits
    assert_near(logits["sdpa"], logits["eager"])


def test_attentions_are_distributions_over_the_real_tokens(model):
    model.set_attn_implementation("eager")
    outputs = model(**padded_batch(), output_attentions=True)
    shapes = {"encoder_attentions": (9, 9), "decoder_attentions": (7, 7), "cross_attentions": (7, 9)}
    for name, (targets, sources) in shapes.items():
        assert len(outputs[name]) == 2
        for weights in outputs[name]:
            assert weights.shape == (2, HEADS, targets, sources)
            assert_near(weights.sum(-1), torch.ones(2, HEADS, targets))
            if sources == 9:
                assert weights[1, ..., 5:].max() == 0
    assert outputs.decoder_attentions[0].triu(1).max() == 0


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_a_question_changes_nothing(model, side, implementation):
    model.set_attn_implementation(implementation)
    question, answer, padding = random_ids(1, 6), random_ids(1, 5, seed=2), torch.full((1, 4), PAD)
    alone = model(input_ids=question, decoder_input_ids=answer)
    parts = (padding, question) if side == "left" else (question, padding)
    input_ids = torch.cat(parts, dim=1)
    real = input_ids[0] != PAD
    padded = model(input_ids=input_ids, attention_mask=real[None].long(), decoder_input_ids=answer)
    assert_near(padded.logits, alone.logits)
    assert_near(padded.encoder_last_hidden_state[:, real], alone.encoder_last_hidden_state)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_an_answer_changes_nothing(model, side, implementation):
    model.set_attn_implementation(implementation)
    question, answer, padding = random_ids(1, 6), random_ids(1, 5, seed=2), torch.full((1, 3), PAD)
    alone = model(input_ids=question, decoder_input_ids=answer).logits
    decoder_input_ids = torch.cat((padding, answer) if side == "left" else (answer, padding), dim=1)
    real = decoder_input_ids[0] != PAD
    padded = model(
        input_ids=question, decoder_input_ids=decoder_input_ids, decoder_attention_mask=real[None].long()
    ).logits
    assert_near(padded[:, real], alone)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_encoder_looks_both_ways(model, implementation, masked):
    model.set_attn_implementation(implementation)
    question = random_ids(1, 6)
    changed = question.clone()
    changed[0, -1] = 4 + (question[0, -1] - 3) % (VOCAB - 4)
    mask = torch.ones_like(question) if masked else None
    first, other = (model.model.encoder(ids, mask).last_hidden_state for ids in (question, changed))
    assert (first[0, 0] - other[0, 0]).abs().max() > 1e-3


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_decoder_sees_exactly_the_tokens_so_far(model, implementation, masked):
    model.set_attn_implementation(implementation)
    states = model.model.encoder(random_ids(1, 6)).last_hidden_state.detach()
    embeddings = model.model.shared(random_ids(1, 7, seed=2)).detach().requires_grad_()
    mask = torch.ones(1, 7, dtype=torch.long) if masked else None
    outputs = model.model.decoder(inputs_embeds=embeddings, attention_mask=mask, encoder_hidden_states=states)
    # A plain sum over a normalized state is constant.
    probe = torch.randn(D, generator=torch.Generator().manual_seed(4))
    for position in range(7):
        (gradient,) = torch.autograd.grad(
            outputs.last_hidden_state[0, position] @ probe, embeddings, retain_graph=True
        )
        reached = gradient[0].abs().amax(-1)
        assert reached[: position + 1].min() > 0
        assert reached[position + 1 :].sum() == 0


# Generation

LENGTH = 24
GENERATIONS = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 3},
    # Hot enough to leave the memorized answers.
    "sampling": {"do_sample": True, "top_k": 0, "temperature": 4.0},
}


def memorized_batch() -> dict[str, torch.Tensor]:
    """Two questions of 9 and 5 tokens, padded on the right, and an answer of 24 tokens to each."""
    batch = labelled_batch()
    batch["labels"] = random_ids(2, LENGTH, seed=3)
    return batch


@functools.cache
def memorizing_model(encoder_layers: int = 2, decoder_layers: int = 2) -> WenzhenForConditionalGeneration:
    """A model that knows two answers by heart: a random one repeats one token, whatever it read before."""
    model = make_model(noise=0.0, encoder_layers=encoder_layers, decoder_layers=decoder_layers, dropout=0.0).train()
    optimizer = torch.optim.AdamW(model.parameters())
    steps = 120
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(steps):
        model(**memorized_batch()).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def generate(model: WenzhenForConditionalGeneration, **settings) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers of 24 tokens, without the start token, and the logits of every step."""
    batch = memorized_batch()
    torch.manual_seed(5)
    outputs = model.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        # Without this an early end would leave next to nothing to compare.
        min_new_tokens=LENGTH,
        max_new_tokens=LENGTH,
        return_dict_in_generate=True,
        output_logits=True,
        **settings,
    )
    return outputs.sequences[:, 1:], torch.stack(outputs.logits)


@pytest.mark.parametrize("settings", [GENERATIONS["greedy"], GENERATIONS["beam"]], ids=["greedy", "beam"])
def test_memorized_answers_are_generated(settings):
    answers, _ = generate(memorizing_model(), **settings)
    assert torch.equal(answers, memorized_batch()["labels"])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("settings", GENERATIONS.values(), ids=GENERATIONS.keys())
def test_generation_with_a_cache_equals_generation_without(settings, cache):
    cache_settings = {"cache_implementation": "static"} if cache == "static" else {}
    cached, cached_logits = generate(memorizing_model(), use_cache=True, **settings, **cache_settings)
    plain, plain_logits = generate(memorizing_model(), use_cache=False, **settings)
    assert plain.shape == (2, LENGTH)
    assert all(len(set(row.tolist())) >= 10 for row in plain)
    assert torch.equal(plain, memorized_batch()["labels"]) != settings["do_sample"]
    assert torch.equal(cached, plain)
    assert_near(cached_logits, plain_logits, atol=1e-4)


@pytest.mark.parametrize("depths", [(1, 3), (3, 1)])
@pytest.mark.parametrize("settings", GENERATIONS.values(), ids=GENERATIONS.keys())
def test_generation_with_unequal_depths_needs_no_cache(depths, settings):
    model = memorizing_model(*depths)
    cached, cached_logits = generate(model, use_cache=True, **settings)
    plain, plain_logits = generate(model, use_cache=False, **settings)
    assert all(len(set(row.tolist())) >= 10 for row in plain)
    assert torch.equal(cached, plain)
    assert_near(cached_logits, plain_logits, atol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_question_is_answered_the_same_alone_and_in_a_padded_batch(side):
    """The answers are told apart by the question alone, so they also show that it is read."""
    batch = memorized_batch()
    long, short = batch["input_ids"][:1], batch["input_ids"][1:, :5]
    parts = (torch.full((1, 4), PAD), short)
    input_ids = torch.cat((torch.cat(parts if side == "left" else parts[::-1], dim=1), long))
    settings = {"do_sample": False, "min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
    answers = memorizing_model().generate(input_ids=input_ids, attention_mask=(input_ids != PAD).long(), **settings)
    assert torch.equal(answers[:, 1:], batch["labels"].flip(0))
    for row, question in zip(answers, (short, long), strict=True):
        assert torch.equal(row, memorizing_model().generate(question, **settings)[0])


# Loss


def test_labels_are_shifted_behind_the_start_token(model):
    labels = torch.tensor([[10, 11, 3], [12, 3, -100], [13, -100, -100]])
    expected = torch.tensor([[BOS, 10, 11], [BOS, 12, 3], [BOS, 13, PAD]])
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), expected)


def test_loss_is_the_mean_negative_log_likelihood_of_the_real_labels(model):
    batch = labelled_batch()
    outputs = model(**batch)
    log_probabilities = outputs.logits.log_softmax(-1)
    real = [(row, column) for row, length in ((0, 7), (1, 4)) for column in range(length)]
    by_hand = -sum(log_probabilities[row, column, batch["labels"][row, column]] for row, column in real) / 11
    library = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), batch["labels"].flatten())
    assert_near(outputs.loss, by_hand, atol=1e-6)
    assert_near(outputs.loss, library, atol=1e-6)


@pytest.mark.parametrize("items", [11, 40])
def test_number_of_items_divides_the_summed_loss(model, items):
    batch = labelled_batch()
    loss = model(**batch, num_items_in_batch=torch.tensor(items)).loss
    assert_near(loss, model(**batch).loss * 11 / items)


# Against MarianMTModel


def to_marian(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename weights, or their gradients, to Marian's names and cut the fused projections apart."""
    renamed = {}
    for name, tensor in tensors.items():
        name = name.replace("cross_attn", "encoder_attn")
        name = name.replace("mlp_layer_norm", "final_layer_norm").replace("mlp.", "")
        for fused in ("qkv_proj", "kv_proj"):
            if f".{fused}." in name:
                letters = fused.removesuffix("_proj")
                for letter, part in zip(letters, tensor.chunk(len(letters)), strict=True):
                    renamed[name.replace(fused, f"{letter}_proj")] = part
                break
        else:
            renamed[name] = tensor
    return renamed


def make_marian(model: WenzhenForConditionalGeneration) -> MarianMTModel:
    """The library's post-norm Transformer with our weights and our order of sines and cosines."""
    config = model.config
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.attention_heads,
            decoder_attention_heads=config.attention_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            max_position_embeddings=config.max_position_embeddings,
            activation_function="relu",
            scale_embedding=True,
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            pad_token_id=config.pad_token_id,
            eos_token_id=config.eos_token_id,
            forced_eos_token_id=None,
            bos_token_id=config.bos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
        )
    )
    result = marian.load_state_dict(to_marian(model.state_dict()), strict=False)
    positions = ["model.decoder.embed_positions.weight", "model.encoder.embed_positions.weight"]
    assert sorted(result.missing_keys) == ["final_logits_bias", *positions]
    assert not result.unexpected_keys
    with torch.no_grad():
        for side in ("encoder", "decoder"):
            ours = model.get_submodule(f"model.{side}.positions")
            marian.get_submodule(f"model.{side}.embed_positions").weight.copy_(ours.weight)
    assert marian.final_logits_bias.abs().max() == 0
    return marian.train(model.training)


@pytest.mark.parametrize("depths", [(2, 2), (1, 3)])
def test_logits_loss_and_gradients_equal_those_of_marian(depths):
    model = make_model(encoder_layers=depths[0], decoder_layers=depths[1], dropout=0.0)
    marian = make_marian(model)
    ours, theirs = (m(**labelled_batch()) for m in (model, marian))
    assert_near(ours.logits, theirs.logits)
    assert_near(ours.loss, theirs.loss)
    ours.loss.backward()
    theirs.loss.backward()
    expected = {name: gradient for name, gradient in gradients(marian).items() if gradient is not None}
    actual = to_marian(gradients(model))
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        assert_near(gradient, expected[name])


# Dropout and checkpointing


def test_dropout_falls_where_it_falls_in_marian():
    """Equal masks from an equal seed leave equal logits only where the same tensors are dropped in the same order."""
    model = make_model(dropout=0.4).train()
    marian = make_marian(model)
    logits = []
    for candidate in (model, marian):
        torch.manual_seed(6)
        logits.append(candidate(**labelled_batch()).logits)
    assert_near(*logits)
    assert (logits[0] - model.eval()(**labelled_batch()).logits).abs().max() > 0.1


def test_training_drops_no_attention_weight_under_eager():
    model = make_model(dropout=0.5).train()
    model.set_attn_implementation("eager")
    outputs = model(**padded_batch(), output_attentions=True)
    for weights in (*outputs.encoder_attentions, *outputs.decoder_attentions, *outputs.cross_attentions):
        assert_near(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_training_drops_no_attention_weight_under_sdpa(monkeypatch):
    rates = []
    attention = nn.functional.scaled_dot_product_attention

    def record(*args, **kwargs):
        rates.append(kwargs["dropout_p"])
        return attention(*args, **kwargs)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", record)
    make_model(dropout=0.5).train()(**padded_batch())
    # Two encoder layers with one attention each, two decoder layers with two.
    assert rates == [0.0] * 6


def test_activation_checkpointing_changes_neither_loss_nor_gradients():
    results, runs = [], []
    for checkpointed in (False, True):
        model = make_model(dropout=0.3).train()
        if checkpointed:
            model.activation_checkpointing_enable()
        calls = []
        for stack in (model.model.encoder, model.model.decoder):
            for layer in stack.layers:
                layer.self_attn.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        torch.manual_seed(7)
        loss = model(**labelled_batch()).loss
        loss.backward()
        results.append((loss, gradients(model)))
        runs.append(len(calls))
    (plain_loss, plain), (loss, recomputed) = results
    # Every layer runs once more on the way back, or nothing was checkpointed at all.
    assert runs == [4, 8]
    assert_near(loss, plain_loss, atol=1e-7)
    for name, gradient in plain.items():
        assert_near(recomputed[name], gradient, atol=1e-6)


# Configuration


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("attention_heads", {"d_model": 32, "attention_heads": 5}),
        ("d_model", {"d_model": 32, "attention_heads": 5}),
        ("d_model", {"d_model": 33, "attention_heads": 3}),
        ("d_model", {"d_model": "32"}),
        ("dropout", {"dropout": 1.0}),
        ("dropout", {"dropout": -0.1}),
        ("encoder_layers", {"encoder_layers": 0}),
        ("decoder_layers", {"decoder_layers": 0}),
        ("attention_heads", {"attention_heads": 0}),
        ("vocab_size", {"vocab_size": 0}),
        ("d_ff", {"d_ff": "wide"}),
    ],
)
def test_impossible_configuration_is_refused_by_name(field, values):
    with pytest.raises(StrictDataclassError, match=field):
        WenzhenConfig(**values)


def test_configuration_made_impossible_later_is_not_saved(tmp_path):
    config = WenzhenConfig(d_model=32)
    config.attention_heads = 5
    with pytest.raises(StrictDataclassError, match="attention_heads"):
        config.save_pretrained(tmp_path)


def test_saved_configuration_comes_back_equal(tmp_path):
    config = WenzhenConfig(d_model=32, encoder_layers=1, decoder_layers=3, dropout=0.25)
    config.save_pretrained(tmp_path)
    assert WenzhenConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()

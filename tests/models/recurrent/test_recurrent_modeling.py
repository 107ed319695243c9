"""What is the recurrent network's own: its cells and attention by hand, its cache, its weights and initial values."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from model_laws.family import PAD, VOCAB, answer_batch, assert_near, question_batch, random_ids
from wenzhen.models.recurrent.configuration_recurrent import WenzhenRecurrentConfig
from wenzhen.models.recurrent.modeling_recurrent import (
    WenzhenRecurrentAttention,
    WenzhenRecurrentCache,
    WenzhenRecurrentForConditionalGeneration,
)
from wenzhen.models.saving import save_with_code

D = 16
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SCORES = ("scaled_dot", "dot", "additive", "bilinear")


def make_model(noise: float = 0.0, **changes) -> WenzhenRecurrentForConditionalGeneration:
    """A tiny model in eval mode; noise makes biases random too."""
    shape = {"vocab_size": VOCAB, "d_model": D, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    torch.manual_seed(0)
    model = WenzhenRecurrentForConditionalGeneration(WenzhenRecurrentConfig(**{**shape, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
    return model


# The whole network by hand


def token_cell(cell: nn.Module, kind: str) -> nn.RNNCellBase:
    """PyTorch's cell for one token, with the weights of one for sequences or for tokens."""
    named = {name.removesuffix("_l0"): parameter.detach() for name, parameter in cell.named_parameters()}
    made = CELLS[kind](named["weight_ih"].shape[1], named["weight_hh"].shape[1])
    made.load_state_dict(named)
    return made


def next_state(cell: nn.RNNCellBase, token: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """One step of PyTorch's cell on one row, `[width]`."""
    if isinstance(cell, nn.LSTMCell):
        return tuple(part[0] for part in cell(token[None], tuple(part[None] for part in state)))
    return (cell(token[None], state[0][None])[0],)


def encode_by_hand(model: WenzhenRecurrentForConditionalGeneration, tokens: torch.Tensor) -> torch.Tensor:
    """States `[length, D]` of one question."""
    config, encoder = model.config, model.get_encoder()
    states = math.sqrt(D) * encoder.embed_tokens.weight[tokens]
    for layer in encoder.layers:
        directions = []
        for index, cell in enumerate(layer.cells):
            made, ways = token_cell(cell, config.cell), slice(None) if index == 0 else slice(None, None, -1)
            order = range(len(tokens))[ways]
            state = (torch.zeros(D // len(layer.cells)),) * 2
            read = {}
            for place in order:
                state = next_state(made, states[place], state)
                read[place] = state[0]
            directions.append(torch.stack([read[place] for place in range(len(tokens))]))
        states = torch.cat(directions, dim=1)
    return states


def score_by_hand(attention: WenzhenRecurrentAttention, score: str, query: torch.Tensor, key: torch.Tensor) -> float:
    """How well an encoder's state suits the decoder's, by the formula of each score."""
    x, q = key.tolist(), query.tolist()
    match score:
        case "dot":
            return sum(a * b for a, b in zip(x, q, strict=True))
        case "scaled_dot":
            return sum(a * b for a, b in zip(x, q, strict=True)) / math.sqrt(D)
        case "additive":
            w, u = attention.key_proj.weight.tolist(), attention.query_proj.weight.tolist()
            sums = [sum(w[i][j] * x[j] + u[i][j] * q[j] for j in range(D)) for i in range(D)]
            return sum(v * math.tanh(z) for v, z in zip(attention.score_vector.tolist(), sums, strict=True))
        case "bilinear":
            # A linear layer holds the transpose of the W in xᵀ W q.
            w = attention.key_proj.weight.T.tolist()
            return sum(x[i] * w[i][j] * q[j] for i in range(D) for j in range(D))
    raise AssertionError


def first_state_by_hand(
    model: WenzhenRecurrentForConditionalGeneration, encoded: torch.Tensor, layer: int
) -> tuple[torch.Tensor, ...]:
    """tanh(W h + b) of where the directions ended."""
    config, bridge = model.config, model.get_decoder().bridge
    ended = torch.cat((encoded[-1, : D // 2], encoded[0, D // 2 :])) if config.bidirectional else encoded[-1]
    parts = 2 if config.cell == "lstm" else 1
    return tuple(
        torch.tanh(bridge.weight[rows * D : (rows + 1) * D] @ ended + bridge.bias[rows * D : (rows + 1) * D])
        for rows in range(layer * parts, (layer + 1) * parts)
    )


def decode_by_hand(
    model: WenzhenRecurrentForConditionalGeneration, encoded: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits `[length, VOCAB]` and attention weights `[length, source_length]` of one answer."""
    config, decoder = model.config, model.get_decoder()
    cells = [token_cell(layer.cell, config.cell) for layer in decoder.layers]
    states = [first_state_by_hand(model, encoded, layer) for layer in range(config.decoder_layers)]
    logits, weights = [], []
    for token in tokens:
        below = math.sqrt(D) * decoder.embed_tokens.weight[token]
        if config.attention_score != "none":
            attention = decoder.layers[0].attention
            powers = [math.exp(score_by_hand(attention, config.attention_score, states[0][0], x)) for x in encoded]
            weights.append(torch.tensor([power / sum(powers) for power in powers]))
            context = sum(weight * x for weight, x in zip(weights[-1], encoded, strict=True))
            below = torch.cat((below, context))
        for layer, cell in enumerate(cells):
            states[layer] = next_state(cell, below, states[layer])
            below = states[layer][0]
        if config.attention_score != "none":
            below = torch.tanh(decoder.context_proj.weight @ torch.cat((context, below)) + decoder.context_proj.bias)
        logits.append(model.lm_head.weight @ below)
    return torch.stack(logits), torch.stack(weights) if weights else torch.empty(0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("score", [*SCORES, "none"])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_network_equals_pytorchs_cells_and_attention_by_hand(cell, score, bidirectional):
    model = make_model(noise=0.2, cell=cell, attention_score=score, bidirectional=bidirectional)
    question, answer = random_ids(1, 6), random_ids(1, 5, seed=2)
    outputs = model(input_ids=question, decoder_input_ids=answer, output_attentions=True)
    encoded = encode_by_hand(model, question[0])
    logits, weights = decode_by_hand(model, encoded, answer[0])
    assert_near(outputs.encoder_last_hidden_state[0], encoded, atol=1e-5)
    assert_near(outputs.logits[0], logits, atol=1e-5)
    assert len(outputs.cross_attentions) == (score != "none")
    for maps in outputs.cross_attentions:
        assert maps.shape == (1, 1, 5, 6)
        assert_near(maps[0, 0], weights, atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_padded_encoder_equals_pytorchs_on_packed_sequences(cell):
    model, batch = make_model(noise=0.2, cell=cell), question_batch("right")
    library = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](
        D, D // 2, num_layers=2, bidirectional=True, batch_first=True
    )
    for number, layer in enumerate(model.get_encoder().layers):
        for own, end in zip(layer.cells, ("", "_reverse"), strict=True):
            for name, parameter in own.named_parameters():
                getattr(library, f"{name[:-1]}{number}{end}").copy_(parameter)
    lengths = batch["attention_mask"].sum(1)
    embeddings = math.sqrt(D) * model.get_input_embeddings()(batch["input_ids"])
    packed = pack_padded_sequence(embeddings, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = library(packed)
    expected = pad_packed_sequence(outputs, batch_first=True)[0]
    ended = last[0] if cell == "lstm" else last
    for side in ("right", "left"):
        batch = question_batch(side)
        states = model.get_encoder()(**batch).last_hidden_state
        real = batch["attention_mask"].bool()
        assert_near(states[real], expected[question_batch("right")["attention_mask"].bool()], atol=1e-6)
        # The highest layer's last states, forwards and backwards, start the decoder.
        bridge = model.get_decoder().bridge
        begun = model.get_decoder().first_states(states, batch["attention_mask"])
        parts = [part for state in begun for part in state]
        assert_near(torch.cat(parts, 1), torch.tanh(bridge(torch.cat((ended[2], ended[3]), 1))), atol=1e-6)


# Dropout


def test_dropout_falls_on_embeddings_and_between_layers_alone(monkeypatch):
    dropped = []
    dropout = nn.functional.dropout

    def record(states, p, training, inplace):
        dropped.append((p, tuple(states.shape), training))
        return dropout(states, p, training, inplace)

    monkeypatch.setattr(nn.functional, "dropout", record)
    make_model(dropout=0.25, encoder_layers=3).train()(**question_batch(), **answer_batch("none"))
    # As nn.LSTM does it, on what each layer reads, once for the whole sequence.
    assert dropped == [(0.25, (3, 9, D), True)] * 3 + [(0.25, (3, 7, D), True)] * 2


def test_training_drops_no_attention_weight():
    outputs = make_model(dropout=0.5).train()(**question_batch(), **answer_batch("none"), output_attentions=True)
    assert_near(outputs.cross_attentions[0].sum(-1), torch.ones(3, 1, 7))


# Cache


def filled_cache(cell: str = "lstm", length: int = 5) -> WenzhenRecurrentCache:
    model = make_model(noise=0.2, cell=cell, attention_score="additive")
    answers = random_ids(3, length, seed=5)
    return model(**question_batch(), decoder_input_ids=answers, use_cache=True).past_key_values


def tensors_of(cache: WenzhenRecurrentCache) -> list[torch.Tensor]:
    return [cache.keys, *(part for state in cache.states for part in state)]


@pytest.mark.parametrize(("cell", "parts"), [("rnn", 1), ("gru", 1), ("lstm", 2)])
def test_cache_holds_a_state_for_each_layer_however_long_the_answer_is(cell, parts):
    for length in (1, 30):
        cache = filled_cache(cell, length)
        assert cache.get_seq_length() == length
        assert [tensor.shape for tensor in tensors_of(cache)] == [(3, 9, D)] + [(3, D)] * 2 * parts


def test_cache_reorders_selects_and_repeats_whole_rows():
    before = tensors_of(filled_cache())
    rows = {"reorder_cache": torch.tensor([2, 0, 0]), "batch_select_indices": torch.tensor([1])}
    for method, indices in rows.items():
        cache = filled_cache()
        getattr(cache, method)(indices)
        assert all(torch.equal(a, b[indices]) for a, b in zip(tensors_of(cache), before, strict=True)), method
    cache = filled_cache()
    cache.batch_repeat_interleave(2)
    repeated = torch.tensor([0, 0, 1, 1, 2, 2])
    assert all(torch.equal(a, b[repeated]) for a, b in zip(tensors_of(cache), before, strict=True))


def test_cache_is_empty_after_a_reset_and_takes_no_token_back():
    cache = filled_cache()
    assert not cache.is_croppable
    with pytest.raises(ValueError, match="cannot be taken back"):
        cache.crop(-1)
    cache.reset()
    assert (cache.get_seq_length(), cache.states, cache.keys) == (0, [], None)


def test_keys_are_projected_once_for_an_answer(monkeypatch):
    model, calls = make_model(attention_score="bilinear"), []
    keys_of = WenzhenRecurrentAttention.keys_of
    monkeypatch.setattr(
        WenzhenRecurrentAttention, "keys_of", lambda self, states: calls.append(1) or keys_of(self, states)
    )
    model.generate(**question_batch(), min_new_tokens=6, max_new_tokens=6)
    assert len(calls) == 1


def test_generation_ignores_what_kind_of_cache_is_asked_for():
    model, settings = make_model(noise=0.2), {"min_new_tokens": 6, "max_new_tokens": 6}
    expected = model.generate(**question_batch(), **settings)
    outputs = model.generate(
        **question_batch(), **settings, cache_implementation="static", return_dict_in_generate=True
    )
    assert torch.equal(outputs.sequences, expected)
    assert type(outputs.past_key_values) is WenzhenRecurrentCache


def test_assisted_generation_is_refused():
    model = make_model()
    with pytest.raises(ValueError, match="assisted generation is not supported with stateful models"):
        model.generate(random_ids(1, 4), assistant_model=make_model(), max_new_tokens=3)


# Loss


def test_loss_alone_needs_labels():
    with pytest.raises(ValueError, match="`loss_only` needs `labels`"):
        make_model()(**question_batch(), **answer_batch(), loss_only=True)


# Weights


@pytest.mark.parametrize("tied", [True, False])
def test_tables_of_embeddings(tied, tmp_path):
    model = make_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    for same in (model, WenzhenRecurrentForConditionalGeneration.from_pretrained(tmp_path)):
        tables = [same.get_encoder().embed_tokens, same.get_decoder().embed_tokens, same.lm_head]
        assert len({table.weight.data_ptr() for table in tables}) == (1 if tied else 3)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("score", [*SCORES, "none"])
@pytest.mark.parametrize("cell", CELLS)
def test_number_of_parameters_follows_from_the_shape(cell, score, bidirectional):
    encoder_layers, decoder_layers = 2, 3
    model = make_model(
        cell=cell,
        attention_score=score,
        bidirectional=bidirectional,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
    )

    def size(inputs: int, width: int) -> int:
        return GATES[cell] * (width * inputs + width * width + 2 * width)

    expected = VOCAB * D + encoder_layers * (2 * size(D, D // 2) if bidirectional else size(D, D))
    expected += (decoder_layers - 1) * size(D, D) + size(D if score == "none" else 2 * D, D)
    expected += {"additive": 2 * D * D + D, "bilinear": D * D}.get(score, 0)
    expected += 0 if score == "none" else 2 * D * D + D
    expected += decoder_layers * (2 if cell == "lstm" else 1) * (D * D + D)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def names_of_weights() -> set[str]:
    """Where every weight of a 2+2 tied model with additive attention stands in a file."""
    sequence = [f"cells.{direction}.{part}_l0" for direction in (0, 1) for part in PARTS]
    names = {f"model.encoder.layers.{layer}.{name}" for layer in (0, 1) for name in sequence}
    names |= {f"model.decoder.layers.0.cell.{part}" for part in PARTS}
    names |= {f"model.decoder.layers.1.cell.{part}_l0" for part in PARTS}
    names |= {
        f"model.decoder.layers.0.attention.{name}" for name in ("key_proj.weight", "query_proj.weight", "score_vector")
    }
    names |= {f"model.decoder.{name}.{part}" for name in ("context_proj", "bridge") for part in ("weight", "bias")}
    tables = {"model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    return names | tables | {"lm_head.weight"}


PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def test_weights_keep_the_names_that_saved_models_have():
    assert make_model(attention_score="additive").state_dict().keys() == names_of_weights()


LOAD_WITHOUT_PACKAGE = """
import json, sys, torch
sys.modules["wenzhen"] = None
from transformers import AutoModelForSeq2SeqLM
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1], trust_remote_code=True)
with torch.no_grad():
    logits = model(input_ids=torch.tensor([[5, 6, 3]]), decoder_input_ids=torch.tensor([[2, 9]])).logits
answer = model.generate(torch.tensor([[5, 6, 3]]), max_new_tokens=4, min_new_tokens=4)
print(json.dumps([type(model).__module__, logits.tolist(), answer.tolist()]))
"""


def test_folder_is_loaded_without_the_package(tmp_path):
    model, folder = make_model(noise=0.2), tmp_path / "model"
    folder.mkdir()
    save_with_code(model, folder)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    done = subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT_PACKAGE, str(folder)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    module, logits, answer = json.loads(done.stdout.splitlines()[-1])
    assert module.startswith("transformers_modules.")
    question, start = torch.tensor([[5, 6, 3]]), torch.tensor([[2, 9]])
    assert_near(torch.tensor(logits), model(input_ids=question, decoder_input_ids=start).logits, atol=1e-6)
    assert answer == model.generate(question, max_new_tokens=4, min_new_tokens=4).tolist()


# Initial values


@pytest.mark.parametrize("tied", [True, False])
def test_scaled_embeddings_start_with_unit_variance_and_padding_at_zero(tied):
    model = make_model(vocab_size=4000, tie_word_embeddings=tied)
    for stack in (model.get_encoder(), model.get_decoder()):
        assert (stack.embed_tokens.weight[1:] * math.sqrt(D)).std().item() == pytest.approx(1.0, abs=0.02)
        assert stack.embed_tokens.weight[PAD].abs().max() == 0


@pytest.mark.parametrize("cell", CELLS)
def test_cells_start_orthogonal_in_each_gate_and_an_lstm_remembers(cell):
    width = 64
    model = make_model(cell=cell, d_model=width, attention_score="additive")
    found = [module for module in model.modules() if isinstance(module, (nn.RNNBase, nn.RNNCellBase))]
    assert len(found) == 2 * 2 + 2
    for module in found:
        parameters = {name.removesuffix("_l0"): parameter for name, parameter in module.named_parameters()}
        inputs, outputs = module.input_size, module.hidden_size
        for gate in range(GATES[cell]):
            rows = slice(gate * outputs, (gate + 1) * outputs)
            recurrent, bound = parameters["weight_hh"][rows], math.sqrt(6 / (inputs + outputs))
            assert_near(recurrent @ recurrent.T, torch.eye(outputs), atol=1e-5)
            assert 0.95 * bound < parameters["weight_ih"][rows].abs().max() <= bound
            forgets = cell == "lstm" and gate == 1
            assert (parameters["bias_ih"][rows] == (1.0 if forgets else 0.0)).all()
            assert (parameters["bias_hh"][rows] == 0).all()
    vector = model.get_decoder().layers[0].attention.score_vector
    assert 0.9 * math.sqrt(6 / (width + 1)) < vector.abs().max() <= math.sqrt(6 / (width + 1))

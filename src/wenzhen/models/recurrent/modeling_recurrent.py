"""A recurrent encoder-decoder with attention, the network whose place the Transformer took.

The encoder reads the question from both ends, and its last states make the first ones of the decoder. At each step the
state that its first layer has reached asks the states of the encoder for a context, which joins the next embedding:

    cₜ = Σⱼ softmaxⱼ(score(sₜ₋₁, hⱼ)) hⱼ,   sₜ = cell([E yₜ₋₁; cₜ], sₜ₋₁)      (Bahdanau et al. 2015, 3.1 and A.1.2)

Only this layer goes step by step; those above it read a whole sequence of states at once. Before the output layer the
context joins the state of the highest: tanh(W [cₜ; sₜ]) (Luong et al. 2015, equation 5). The file reads from the
smallest part to the whole and imports nothing of this package but its configuration, because it travels to the Hub
beside the weights.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.generation import GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_recurrent import WenzhenRecurrentConfig

# What a layer carries from one token to the next, each `[batch, width]`: an LSTM's state and memory, else the state.
State = tuple[torch.Tensor, ...]


def rnn_step(inputs: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    """Return s' = tanh(W x + U s) (Elman 1990).

    Args:
        inputs: W x with its bias, `[batch, gates · width]`; here there is one gate.
        recurrent: U s with its bias, `[batch, gates · width]`.
        state: s.
    """
    return (torch.tanh(inputs + recurrent),)


def gru_step(inputs: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    """Return s' = (1 - z) n + z s, with gates r, z = σ(W x + U s) and n = tanh(W x + r (U s)) (Cho et al. 2014, as
    PyTorch has it); see [`rnn_step`]. The gates stand in the order r, z, n."""
    width = state[0].shape[-1]
    gates = torch.sigmoid(inputs[:, : 2 * width] + recurrent[:, : 2 * width])
    reset, update = gates.chunk(2, dim=-1)
    new = torch.tanh(torch.addcmul(inputs[:, 2 * width :], reset, recurrent[:, 2 * width :]))
    return (torch.lerp(new, state[0], update),)


def lstm_step(inputs: torch.Tensor, recurrent: torch.Tensor, state: State) -> State:
    """Return s' = o tanh(c') and c' = f c + i g, with gates i, f, o = σ(W x + U s) and g = tanh(W x + U s) (Hochreiter
    and Schmidhuber 1997; Gers et al. 2000); see [`rnn_step`]. The gates stand in the order i, f, g, o."""
    input_gate, forget_gate, new, output_gate = (inputs + recurrent).chunk(4, dim=-1)
    memory = torch.sigmoid(forget_gate) * state[1] + torch.sigmoid(input_gate) * torch.tanh(new)
    return torch.sigmoid(output_gate) * torch.tanh(memory), memory


# By `cell`: a layer that reads a whole sequence at once, one that reads a token, and how the latter computes.
CELLS: dict[str, tuple[type[nn.RNNBase], type[nn.RNNCellBase], Callable[[torch.Tensor, torch.Tensor, State], State]]]
CELLS = {
    "rnn": (nn.RNN, nn.RNNCell, rnn_step),
    "gru": (nn.GRU, nn.GRUCell, gru_step),
    "lstm": (nn.LSTM, nn.LSTMCell, lstm_step),
}


def read(cell: nn.RNNBase, inputs: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
    """Let a cell read a sequence `[batch, length, width]` on from a state; returns all states and the last one."""
    first = tuple(part.unsqueeze(0) for part in state)
    outputs, last = cell(inputs, first if isinstance(cell, nn.LSTM) else first[0])
    return outputs, tuple(part.squeeze(0) for part in (last if isinstance(cell, nn.LSTM) else (last,)))


def keep_padded(real: torch.Tensor, new: State, old: State) -> State:
    """Return the new state of those rows whose token is real, `[batch]`, and the old one of the others."""
    return tuple(torch.where(real.unsqueeze(1), *parts) for parts in zip(new, old, strict=True))


class WenzhenRecurrentCache(Cache):
    """What the decoder remembers of an answer; its size does not grow with it.

    Attributes:
        length: tokens read so far, padding included.
        states: each layer's state after a row's newest real token.
        keys: the encoder's states as attention compares them, `[batch, source_length, d_model]`.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.length = 0
        self.states: list[State] = []
        self.keys: torch.Tensor | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return how many tokens were read."""
        return self.length

    @property
    def is_croppable(self) -> bool:
        """A state does not tell what it was before."""
        return False

    def crop(self, tokens_to_remove: int) -> None:
        """Refuse to forget the newest tokens."""
        raise ValueError("A recurrent state cannot be taken back: read the sequence again from its beginning.")

    def _map_rows(self, select: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Replace the rows of everything."""
        self.states = [tuple(map(select, state)) for state in self.states]
        self.keys = None if self.keys is None else select(self.keys)

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Give each beam the state of the one that it goes on from."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep the rows that `indices` name, in their order."""
        self._map_rows(lambda rows: rows.index_select(0, indices.to(rows.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self._map_rows(lambda rows: rows.repeat_interleave(repeats, dim=0))


class WenzhenRecurrentOrder:
    """The order in which one direction reads each row: padding last, on whichever side it stands, so that no state of
    a real token depends on it. (PyTorch's packed sequences compute no padding, but take up to five times as long on a
    CPU.)

    Args:
        real: which tokens are real, `[batch, length]`.
        backwards: whether to begin at the last one.
    """

    def __init__(self, real: torch.Tensor, backwards: bool) -> None:
        batch, length = real.shape
        places = torch.arange(length, device=real.device)
        order = torch.where(real, places.flip(0) if backwards else places, places + length).argsort(dim=1)
        starts = torch.arange(batch, device=real.device).unsqueeze(1) * length
        self.indices = (starts + order).flatten()
        self.places = (starts + order.argsort(dim=1)).flatten()

    def sort(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Put `[batch, length, width]` into this order."""
        return hidden_states.flatten(0, 1).index_select(0, self.indices).view_as(hidden_states)

    def restore(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Put `[batch, length, width]` back."""
        return hidden_states.flatten(0, 1).index_select(0, self.places).view_as(hidden_states)


class WenzhenRecurrentAttention(nn.Module):
    """Attention of one state of the decoder, q, to the encoder's states, x. It compares them by `attention_score`:

    - `dot`: xᵀq, and `scaled_dot`: xᵀq / √d_model.
    - `additive`: vᵀ tanh(W x + U q) (Bahdanau et al. 2015, A.1.2). It takes `d_model` times the memory of the others.
    - `bilinear`: xᵀ W q (Luong et al. 2015, 3.1, `general`).
    """

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__()
        self.additive = config.attention_score == "additive"
        self.scaling = config.d_model**-0.5 if config.attention_score == "scaled_dot" else 1.0
        if config.attention_score in ("additive", "bilinear"):
            self.key_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        if self.additive:
            self.query_proj = nn.Linear(config.d_model, config.d_model, bias=False)
            self.score_vector = nn.Parameter(torch.empty(config.d_model))

    def keys_of(self, encoder_hidden_states: torch.Tensor) -> torch.Tensor:
        """Return what queries are compared with, `[batch, source_length, d_model]`: the same at every step."""
        if hasattr(self, "key_proj"):
            return self.key_proj(encoder_hidden_states)
        return encoder_hidden_states * self.scaling

    def score(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Compare a query of each row, `[batch, d_model]`, with its keys; returns `[batch, source_length]`."""
        if self.additive:
            # A product with a vector would depend on where in memory the vector lies.
            return (torch.tanh(keys + self.query_proj(query).unsqueeze(1)) * self.score_vector).sum(-1)
        return torch.bmm(keys, query.unsqueeze(2)).squeeze(2)

    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, attention_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend with one query in each row.

        Args:
            query: `[batch, d_model]`.
            keys: of [`keys_of`].
            values: the encoder's states, `[batch, source_length, d_model]`.
            attention_mask: added to the scores, `[batch, source_length]`.

        Returns:
            The context `[batch, d_model]` and the weights `[batch, source_length]`.
        """
        scores = self.score(query, keys)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = nn.functional.softmax(scores, dim=-1)
        return torch.bmm(weights.unsqueeze(1), values).squeeze(1), weights


class WenzhenRecurrentLayer(GradientCheckpointingLayer):
    """What all layers share: dropout on their input, which is the embedding or another layer's output."""

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)


class WenzhenRecurrentEncoderLayer(WenzhenRecurrentLayer):
    """One cell for each direction, their states side by side."""

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        directions = 2 if config.bidirectional else 1
        sequence_class = CELLS[config.cell][0]
        self.cells = nn.ModuleList(
            sequence_class(config.d_model, config.d_model // directions, batch_first=True) for _ in range(directions)
        )

    def forward(self, hidden_states: torch.Tensor, orders: list[WenzhenRecurrentOrder]) -> torch.Tensor:
        """Map `[batch, source_length, d_model]` to the same shape, each direction in its own order."""
        inputs = self.dropout(hidden_states)
        outputs = [order.restore(cell(order.sort(inputs))[0]) for cell, order in zip(self.cells, orders, strict=True)]
        return torch.cat(outputs, dim=-1)


class WenzhenRecurrentDecoderLayer(WenzhenRecurrentLayer):
    """One cell that reads forwards."""

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        self.cell = CELLS[config.cell][0](config.d_model, config.d_model, batch_first=True)

    def forward(
        self, hidden_states: torch.Tensor, state: State, real: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, State]:
        """Read on from a state.

        Args:
            hidden_states: `[batch, target_length, d_model]`.
            state: before the first of them.
            real: which tokens are real, `[batch, target_length]`; None where all are.

        Returns:
            All states `[batch, target_length, d_model]`, and the one after each row's last real token.
        """
        inputs = self.dropout(hidden_states)
        if real is None:
            return read(self.cell, inputs, state)
        outputs = []
        for token, is_real in zip(inputs.split(1, dim=1), real.unbind(1), strict=True):
            output, new = read(self.cell, token, state)
            state = keep_padded(is_real, new, state)
            outputs.append(output)
        return torch.cat(outputs, dim=1), state


class WenzhenRecurrentAttentionLayer(WenzhenRecurrentLayer):
    """The decoder's first layer, whose state asks at each step for a context, which its cell reads with the token."""

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        _, token_class, self.step = CELLS[config.cell]
        self.attention = WenzhenRecurrentAttention(config)
        self.cell = token_class(2 * config.d_model, config.d_model)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        state: State,
        real: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        keys: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, State, torch.Tensor]:
        """Read on from a state, token by token, as [`WenzhenRecurrentDecoderLayer`] does at once.

        Args:
            encoder_hidden_states: `[batch, source_length, d_model]`.
            encoder_attention_mask: 1 for real tokens of the question, `[batch, source_length]`.
            keys: what an earlier call returned for the same question.

        Returns:
            All states `[batch, target_length, d_model]`, attention weights `[batch, 1, target_length, source_length]`,
            contexts `[batch, target_length, d_model]`, the state after each row's last real token, and the keys.
        """
        cell, dtype = self.cell, self.cell.weight_ih.dtype
        embedding_weight, context_weight = cell.weight_ih.chunk(2, dim=1)
        # All that no state has a part in is computed for the whole sequence.
        tokens = nn.functional.linear(self.dropout(hidden_states).transpose(0, 1), embedding_weight, cell.bias_ih)
        if keys is None:
            keys = self.attention.keys_of(encoder_hidden_states)
        mask = None
        if encoder_attention_mask is not None:
            mask = (1 - encoder_attention_mask.to(dtype)) * torch.finfo(dtype).min
        tokens, compared, values = (part.to(dtype) for part in (tokens, keys, encoder_hidden_states))
        state = tuple(part.to(dtype) for part in state)
        context_weight = context_weight.t()
        outputs, contexts, weights = [], [], []
        # Under autocast each step would round the state anew, and the weights too.
        with torch.autocast(tokens.device.type, enabled=False):
            for index, token in enumerate(tokens.unbind(0)):
                context, looked = self.attention(state[0], compared, values, mask)
                recurrent = nn.functional.linear(state[0], cell.weight_hh, cell.bias_hh)
                new = self.step(torch.addmm(token, context, context_weight), recurrent, state)
                state = new if real is None else keep_padded(real[:, index], new, state)
                outputs.append(new[0])
                contexts.append(context)
                weights.append(looked)
        return torch.stack(outputs, 1), torch.stack(weights, 1).unsqueeze(1), torch.stack(contexts, 1), state, keys


class WenzhenRecurrentPreTrainedModel(PreTrainedModel):
    """What every model of the family shares: its abilities and its initialization."""

    config: WenzhenRecurrentConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = [
        "WenzhenRecurrentEncoderLayer",
        "WenzhenRecurrentDecoderLayer",
        "WenzhenRecurrentAttentionLayer",
    ]
    _skip_keys_device_placement = ["past_key_values"]
    # A state cannot be taken back to an earlier token.
    _is_stateful = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Xavier for projections; embeddings of variance 1/d, which are scaled by √d before they are read."""
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, WenzhenRecurrentAttention) and module.additive:
            bound = (6 / (self.config.d_model + 1)) ** 0.5
            init.uniform_(module.score_vector, -bound, bound)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
            if not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            self._init_cell(module)

    def _init_cell(self, cell: nn.RNNBase | nn.RNNCellBase) -> None:
        """Xavier for each gate's input, an orthogonal matrix for its state (Bahdanau et al. 2015, B.1), no bias; but
        an LSTM's forget gate starts open (Gers et al. 2000; Jozefowicz et al. 2015)."""
        for name, parameter in cell.named_parameters():
            values = torch.zeros(parameter.shape, device=parameter.device)
            for gate, part in enumerate(values.split(cell.hidden_size)):
                if name.startswith("weight_ih"):
                    nn.init.xavier_uniform_(part)
                elif name.startswith("weight_hh"):
                    nn.init.orthogonal_(part)
                elif name.startswith("bias_ih") and isinstance(cell, (nn.LSTM, nn.LSTMCell)) and gate == 1:
                    part.fill_(1.0)
            init.copy_(parameter, values)

    def _resize_token_embeddings(
        self, new_num_tokens: int | None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the decoder's own embedding too, where it has one."""
        resized = super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if not self.config.tie_word_embeddings:
            decoder = self.get_decoder()
            decoder.embed_tokens = self._get_resized_embeddings(
                decoder.embed_tokens, resized.num_embeddings, mean_resizing=mean_resizing
            )
        return resized


class WenzhenRecurrentStack(WenzhenRecurrentPreTrainedModel):
    """What encoder and decoder share: the embedding."""

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_scale = math.sqrt(config.d_model)
        self.gradient_checkpointing = False

    def embed(
        self, input_ids: torch.LongTensor | None, inputs_embeds: torch.Tensor | None, past_length: int = 0
    ) -> torch.Tensor:
        """Return √d · embedding, `[batch, length, d_model]`, of exactly one of the two inputs.

        Raises:
            ValueError: both or none are given, or the sequence is longer than `max_position_embeddings`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        length = past_length + inputs_embeds.shape[1]
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"A sequence of {length} tokens is longer than `max_position_embeddings` "
                f"({self.config.max_position_embeddings}). Truncate it, or train with a larger value."
            )
        return inputs_embeds * self.embed_scale


class WenzhenRecurrentEncoder(WenzhenRecurrentStack):
    """`encoder_layers` layers over the question."""

    _can_record_outputs = {"hidden_states": WenzhenRecurrentEncoderLayer}

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(WenzhenRecurrentEncoderLayer(config) for _ in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode questions.

        Args:
            input_ids: `[batch, source_length]`; or
            inputs_embeds: `[batch, source_length, d_model]`, before the scaling by √d.
            attention_mask: 1 for real tokens, 0 for padding on either side, `[batch, source_length]`.
        """
        hidden_states = self.embed(input_ids, inputs_embeds)
        if attention_mask is None:
            attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
        real = attention_mask.bool()
        directions = (False, True) if self.config.bidirectional else (False,)
        orders = [WenzhenRecurrentOrder(real, backwards) for backwards in directions]
        for layer in self.layers:
            hidden_states = layer(hidden_states, orders)
        return BaseModelOutput(last_hidden_state=hidden_states)


class WenzhenRecurrentDecoder(WenzhenRecurrentStack):
    """`decoder_layers` layers over the answer so far, the first of which looks at the encoder's output."""

    _can_record_outputs = {
        "hidden_states": [WenzhenRecurrentDecoderLayer, WenzhenRecurrentAttentionLayer],
        "cross_attentions": OutputRecorder(WenzhenRecurrentAttentionLayer, index=1),
    }

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        self.attends = config.attention_score != "none"
        self.layers = nn.ModuleList(WenzhenRecurrentDecoderLayer(config) for _ in range(config.decoder_layers))
        if self.attends:
            self.layers[0] = WenzhenRecurrentAttentionLayer(config)
            self.context_proj = nn.Linear(2 * config.d_model, config.d_model)
        self.state_parts = 2 if config.cell == "lstm" else 1
        self.bridge = nn.Linear(config.d_model, config.decoder_layers * self.state_parts * config.d_model)
        self.post_init()

    def first_states(
        self, encoder_hidden_states: torch.Tensor, encoder_attention_mask: torch.Tensor | None
    ) -> list[State]:
        """Make every layer's first state, tanh(W h) (Bahdanau et al. 2015, A.2.2), of the last ones of the encoder's
        highest layer, h: after the last real token forwards, and after the first one backwards.

        Each layer has its own W, and an LSTM's memory another one; both directions stand side by side in h.
        """
        batch, length, width = encoder_hidden_states.shape
        if encoder_attention_mask is None:
            encoder_attention_mask = encoder_hidden_states.new_ones(batch, length)
        rows = torch.arange(batch, device=encoder_hidden_states.device)
        real = encoder_attention_mask.long()
        last = encoder_hidden_states[rows, length - 1 - real.flip(1).argmax(dim=1)]
        if self.config.bidirectional:
            first = encoder_hidden_states[rows, real.argmax(dim=1)]
            last = torch.cat((last[:, : width // 2], first[:, width // 2 :]), dim=1)
        parts = torch.tanh(self.bridge(last)).chunk(len(self.layers) * self.state_parts, dim=1)
        return [parts[start : start + self.state_parts] for start in range(0, len(parts), self.state_parts)]

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: WenzhenRecurrentCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode answers.

        Args:
            input_ids: the newest tokens, `[batch, target_length]`; or
            inputs_embeds: `[batch, target_length, d_model]`, before the scaling by √d.
            attention_mask: 1 for real tokens, `[batch, past_length + target_length]`.
            encoder_hidden_states: `[batch, source_length, d_model]`.
            encoder_attention_mask: 1 for real tokens of the question, `[batch, source_length]`.
            past_key_values: states after the tokens before `input_ids`; made when `use_cache` asks for it.
        """
        cache = WenzhenRecurrentCache() if past_key_values is None else past_key_values
        hidden_states = self.embed(input_ids, inputs_embeds, cache.get_seq_length())
        length = hidden_states.shape[1]
        real = None if attention_mask is None else attention_mask[:, -length:].bool()
        states = cache.states or self.first_states(encoder_hidden_states, encoder_attention_mask)
        contexts, keys, new_states = None, cache.keys, []
        for layer, state in zip(self.layers, states, strict=True):
            if isinstance(layer, WenzhenRecurrentAttentionLayer):
                hidden_states, _, contexts, state, keys = layer(
                    hidden_states, encoder_hidden_states, state, real, encoder_attention_mask, keys
                )
            else:
                hidden_states, state = layer(hidden_states, state, real)
            new_states.append(state)
        if contexts is not None:
            hidden_states = torch.tanh(self.context_proj(torch.cat((contexts, hidden_states), dim=-1)))
        if use_cache:
            cache.length, cache.states, cache.keys = cache.length + length, new_states, keys
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=hidden_states, past_key_values=cache if use_cache else None
        )


class WenzhenRecurrentModel(WenzhenRecurrentPreTrainedModel):
    """Encoder and decoder, without the output layer."""

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        if config.tie_word_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = WenzhenRecurrentEncoder(config)
        self.decoder = WenzhenRecurrentDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding that encoder and decoder share, or the encoder's own."""
        return self.shared if self.config.tie_word_embeddings else self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding that encoder and decoder share, or the encoder's own."""
        self.encoder.embed_tokens = value
        if self.config.tie_word_embeddings:
            self.shared = value
            self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: WenzhenRecurrentCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Run both sides; see the forwards of encoder and decoder for shapes. `encoder_outputs` skips the encoder."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
        )


class WenzhenRecurrentForConditionalGeneration(WenzhenRecurrentPreTrainedModel, GenerationMixin):
    """The whole model: a question in, an answer out, one token at a time."""

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: WenzhenRecurrentConfig) -> None:
        super().__init__(config)
        self.model = WenzhenRecurrentModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """Have `generate` make no cache, of whatever kind was asked for: the decoder makes its own."""
        return False

    def prepare_decoder_input_ids_from_labels(self, labels: torch.LongTensor) -> torch.LongTensor:
        """Shift labels `[batch, target_length]` one to the right behind the start token; -100 becomes padding."""
        start = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        shifted = torch.cat((start, labels[:, :-1]), dim=1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def token_loss(
        self,
        hidden_states: torch.Tensor,
        labels: torch.LongTensor,
        num_items_in_batch: int | torch.Tensor | None,
        label_smoothing: float,
    ) -> torch.Tensor:
        """Return the loss of tokens, `[batch, length, d_model]` and `[batch, length]`, over the number of those that
        have a label, or the one given; no logits are computed for the others."""
        real = labels != -100
        logits = self.lm_head(hidden_states[real])
        total = nn.functional.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            labels[real],
            reduction="sum",
            label_smoothing=label_smoothing,
        )
        return total / (real.sum() if num_items_in_batch is None else num_items_in_batch)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: WenzhenRecurrentCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        loss_only: bool = False,
        label_smoothing: float = 0.0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Score answers, and with `labels` measure the loss.

        Args:
            input_ids: questions, `[batch, source_length]`.
            attention_mask: 1 for real tokens of the questions, `[batch, source_length]`.
            decoder_input_ids: `[batch, target_length]`; made from `labels` where it is missing.
            labels: the token after each decoder input, -100 where there is none, `[batch, target_length]`.
            loss_only: compute the loss of `labels`, and no logits of padding: the same number, sooner.
            label_smoothing: with `loss_only`, the share of the target that is spread evenly over the vocabulary.

        Returns:
            `loss` in nats per real label (over `num_items_in_batch` labels where the Trainer gives that number, so
            that accumulation and several processes change nothing) and `logits` `[batch, target_length, vocab_size]`.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if loss_only and labels is None:
            raise ValueError("`loss_only` needs `labels`.")
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        if loss_only:
            items = kwargs.get("num_items_in_batch")
            return Seq2SeqLMOutput(loss=self.token_loss(outputs.last_hidden_state, labels, items, label_smoothing))
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            # The decoder's inputs are shifted already: `labels=None` keeps the loss function from shifting again.
            loss = self.loss_function(
                logits=logits, labels=None, vocab_size=self.config.vocab_size, shift_labels=labels, **kwargs
            )
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, **{k: v for k, v in outputs.items() if k != "last_hidden_state"}
        )


__all__ = [
    "WenzhenRecurrentForConditionalGeneration",
    "WenzhenRecurrentModel",
    "WenzhenRecurrentPreTrainedModel",
]

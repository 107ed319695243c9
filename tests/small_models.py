"""Model folders small enough to be made in a test, untrained or with a few answers learned by heart."""

import json
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast

from wenzhen.benchmark.peer import make_marian
from wenzhen.models.saving import save_with_code
from wenzhen.models.transformer.configuration_transformer import WenzhenConfig
from wenzhen.models.transformer.modeling_transformer import WenzhenForConditionalGeneration
from wenzhen.tokenization import Encoder, save_tokenizer, train_tokenizer

POSITIONS = 48
PAIRS = {
    "感冒三天了，还有点发烧，要吃药吗？": "先量体温，多喝水；超过三十八度五，可以吃退烧药。",
    "晚上总睡不着，怎么办？": "睡前不看手机，按时上床，白天多走动。还是睡不着，再看医生。",
    "血压有点高，吃东西要注意什么？": "少吃盐，少喝酒，多吃蔬菜，每天早晚各量一次血压。",
    "孩子拉肚子一天了。": "注意补水，吃清淡的粥；精神不好，就去医院。",
    "膝盖疼，上楼梯的时候更疼": "少爬楼梯，不要久蹲，热敷可以缓解；肿了要拍片。",
}


def small_tokenizer(kind: str = "character") -> PreTrainedTokenizerFast:
    """Return a tokenizer of the pairs' texts."""
    sizes = {"character": None, "bpe": 300, "wordpiece": 160, "unigram": 380}
    tokenizer = train_tokenizer([*PAIRS, *PAIRS.values()], kind, vocab_size=sizes[kind])
    tokenizer.model_max_length = POSITIONS
    return tokenizer


def small_model(tokenizer: PreTrainedTokenizerFast, noise: float = 0.2, **config) -> WenzhenForConditionalGeneration:
    """Return an untrained model; noise makes its biases and normalizations random too, so that none can hide."""
    shape = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "attention_heads": 4, "d_ff": 48, "dropout": 0.0}
    torch.manual_seed(0)
    model = WenzhenForConditionalGeneration(
        WenzhenConfig(**{"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, **shape, **config})
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
    return model


def trained_model(tokenizer: PreTrainedTokenizerFast, steps: int = 80, **config) -> WenzhenForConditionalGeneration:
    """Return a model that nearly knows the pairs by heart: every token has rivals."""
    model = small_model(tokenizer, noise=0.0, **config).train()
    inputs, labels = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in rows.to_pylist()], batch_first=True)
        for rows in Encoder(tokenizer).pairs(list(PAIRS), list(PAIRS.values()), POSITIONS, POSITIONS)
    )
    batch = {
        "input_ids": inputs,
        "attention_mask": (inputs != tokenizer.pad_token_id).long(),
        "labels": labels.masked_fill(labels == tokenizer.pad_token_id, -100),
    }
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(steps):
        model(**batch).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def save_model_folder(
    model: WenzhenForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, folder: Path, **generation
) -> Path:
    """Write what makes a model folder; `generation` are settings of its own way to answer."""
    config = model.config
    model.generation_config = GenerationConfig(
        **{"max_new_tokens": POSITIONS, **generation},
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
    folder.mkdir()
    save_with_code(model, folder)
    save_tokenizer(tokenizer, folder)
    return folder


def save_marian_folder(folder: Path) -> Path:
    """Write what makes a model folder, with a model of another family."""
    tokenizer = small_tokenizer()
    model = small_model(tokenizer)
    save_model_folder(model, tokenizer, folder)
    make_marian(model).save_pretrained(folder)
    return folder


def change_json(file: Path, **values: object) -> None:
    """Change keys of a JSON file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(content | values), encoding="utf-8")

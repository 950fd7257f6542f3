"""Tiny random models on disk: no model hub is needed to test what loads and runs one."""

from __future__ import annotations

from pathlib import Path

TEXT = (
    "[PAD] [UNK] [CLS] [SEP] the a cat dog sat ran on mat red blue river bank money loan is what "
    "who where chased of in and to one two three"
)
WORDS = TEXT.split()


def save_tokenizer(folder: Path, template: str | None = None, *, special: bool = True) -> None:
    import tokenizers
    import transformers
    from tokenizers.processors import TemplateProcessing

    vocabulary = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if special:
        made.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    )
    if template:
        fast.chat_template = template
    fast.save_pretrained(folder)


def _bert_config(**more):
    import transformers

    return transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        **more,
    )


def save_encoder(folder: Path) -> str:
    """A BERT of 16 dimensions and 64 positions with mean pooling."""
    import json

    import torch
    import transformers

    torch.manual_seed(0)
    transformers.BertModel(_bert_config()).save_pretrained(folder)
    save_tokenizer(folder)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder)


def save_cross_encoder(folder: Path, labels: int = 1) -> str:
    import torch
    import transformers

    torch.manual_seed(0)
    config = _bert_config(num_labels=labels)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


def save_language_model(folder: Path, template: str | None = None) -> str:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS),
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=2,
        eos_token_id=None,
        tie_word_embeddings=False,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder, template, special=False)
    return str(folder)

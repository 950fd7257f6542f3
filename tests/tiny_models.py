"""Tiny random models on disk: no model hub is needed to test what loads and runs one."""

from __future__ import annotations

from pathlib import Path

TEXT = (
    "[PAD] [UNK] [CLS] [SEP] the a cat dog sat ran on mat red blue river bank money loan is what "
    "who where chased of in and to one two three"
)
WORDS = TEXT.split()


def save_tokenizer(
    folder: Path,
    template: str | None = None,
    *,
    special: bool = True,
    more: tuple[str, ...] = (),
    **tokens: str,
) -> None:
    """`more` are words beyond WORDS; `tokens` further special tokens, such as mask_token."""
    import tokenizers
    import transformers
    from tokenizers.processors import TemplateProcessing

    vocabulary = {word: i for i, word in enumerate((*WORDS, *more))}
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
        **tokens,
    )
    if template:
        fast.chat_template = template
    fast.save_pretrained(folder)


def _bert_config(more_words=0, **more):
    import transformers

    return transformers.BertConfig(
        vocab_size=len(WORDS) + more_words,
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


def save_splade(folder: Path) -> str:
    """A masked language model of 16 dimensions and 64 positions, which is read as SPLADE."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(_bert_config(1, initializer_range=0.5))
    model.save_pretrained(folder)
    save_tokenizer(folder, more=("[MASK]",), mask_token="[MASK]")
    return str(folder)


def save_static_queries(splade: str, folder: Path) -> str:
    """That model for passages; of a query each token weighs as much as its number."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    passages = SparseEncoder(splade, device="cpu")
    weights = torch.arange(len(WORDS) + 1, dtype=torch.float32)
    queries = SparseStaticEmbedding(passages.tokenizer, weights)
    router = Router.for_query_document([queries], list(passages.children()))
    SparseEncoder(modules=[router], device="cpu").save_pretrained(str(folder))
    passages.tokenizer.save_pretrained(folder)
    return str(folder)


def save_cross_encoder(folder: Path, labels: int = 1) -> str:
    import torch
    import transformers

    torch.manual_seed(0)
    config = _bert_config(num_labels=labels)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


def save_colbert(folder: Path) -> str:
    """A BERT of 16 dimensions with a projection to 8, as Stanford's ColBERT saves one.

    Queries have 8 tokens, the rest of them [MASK]; passages have 32, without punctuation.
    """
    import json

    import safetensors.torch
    import torch
    import transformers

    torch.manual_seed(0)
    more = ("[MASK]", "[unused0]", "[unused1]", ".")
    config = _bert_config(len(more), architectures=["HF_ColBERT"])
    config.save_pretrained(folder)
    save_tokenizer(folder, more=more, mask_token="[MASK]")
    bert = transformers.BertModel(config).state_dict()
    weights = {f"bert.{name}": value for name, value in bert.items()}
    weights["linear.weight"] = torch.randn(8, 16)
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    about = {"query_maxlen": 8, "doc_maxlen": 32, "mask_punctuation": True}
    (folder / "artifact.metadata").write_text(json.dumps(about))
    return str(folder)


def save_t5(folder: Path, more: tuple[str, ...] = ("true", "false")) -> str:
    """A T5 of 16 dimensions whose tokenizer knows the words `more`."""
    import torch
    import transformers

    torch.manual_seed(0)
    known = (*more, "Query", "Document", "Relevant", ":")
    config = transformers.T5Config(
        vocab_size=len(WORDS) + len(known),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=3,
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    save_tokenizer(folder, special=False, more=known, eos_token="[SEP]")
    return str(folder)


def save_language_model(
    folder: Path, template: str | None = None, more: tuple[str, ...] = ()
) -> str:
    """A GPT-2 of 16 dimensions; `more` are words that it knows beyond WORDS."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS) + len(more),
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=2,
        eos_token_id=None,
        tie_word_embeddings=False,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder, template, special=False, more=more)
    return str(folder)

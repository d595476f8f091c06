"""Small models with random weights, written by transformers as it writes any model, and what reads them again.

A specification is {"family": "llama" | "qwen2" | "qwen3", "head": "lm" | "value" | "reward", "config": fields of config.json,
"dtype": name of torch, "shard": bytes in a file or null, "seed": int}.
"""

import torch
import transformers

torch.set_num_threads(1)

FAMILIES = {
    "llama": transformers.LlamaConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
}
HEADS = {
    "lm": transformers.AutoModelForCausalLM,
    "value": transformers.AutoModelForTokenClassification,
    "reward": transformers.AutoModelForSequenceClassification,
}
PAD, BOS, EOS = 0, 1, 2
FIRST_WORD = 3
SIZES = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def save_random_model(directory, family, head="lm", config=None, dtype="float32", shard=None, seed=0):
    """Weights are large enough that what a loader gets wrong shows: biases are not 0 and norms not 1."""
    torch.manual_seed(seed)
    sizes = {**SIZES, **(config or {}), **({} if head == "lm" else {"num_labels": 1})}
    # Left out where a family's own default is meant.
    sizes = {name: value for name, value in sizes.items() if value != "default"}
    model = HEADS[head].from_config(FAMILIES[family](**sizes))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.normal_(1.0 if "norm" in name else 0.0, 0.3)
            else:
                p.normal_(0.0, p.shape[1] ** -0.5)
    model.to(getattr(torch, dtype)).save_pretrained(directory, **({"max_shard_size": shard} if shard else {}))
    save_word_tokenizer(directory, sizes["vocab_size"])


def save_word_tokenizer(directory, vocab_size):
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = ["<pad>", "<bos>", "<end>"]
    words = special + [f"w{i}" for i in range(vocab_size - len(special))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<end>"
    ).save_pretrained(directory)


def load(directory, head="lm"):
    return HEADS[head].from_pretrained(directory, dtype=torch.float32)


def padded(sequences):
    """Ids [B, L] padded on the right, and the mask that says so."""
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), PAD)
    mask = torch.zeros(len(sequences), longest, dtype=torch.long)
    for i, sequence in enumerate(sequences):
        ids[i, : len(sequence)] = torch.tensor(sequence)
        mask[i, : len(sequence)] = 1
    return ids, mask


def says(model, head, prompts, completions):
    """What a model says of each completion: a list of {"logprob", "entropy"} or {"value"}, tensors of its tokens.

    The value of a token is what the head says before it is drawn. A reward model says one number of what comes before the last
    token, with which an answer ends.
    """
    if head == "reward":
        ids, mask = padded([p + c[:-1] for p, c in zip(prompts, completions)])
        return [{"value": value} for value in model(input_ids=ids, attention_mask=mask).logits]
    ids, mask = padded([p + c for p, c in zip(prompts, completions)])
    logits = model(input_ids=ids, attention_mask=mask).logits
    found = []
    for row, (prompt, completion) in enumerate(zip(prompts, completions)):
        before = logits[row, len(prompt) - 1 : len(prompt) - 1 + len(completion)]
        if head == "value":
            found.append({"value": before[:, 0]})
            continue
        every = torch.log_softmax(before, dim=-1)
        chosen = every.gather(1, torch.tensor(completion)[:, None])[:, 0]
        found.append({"logprob": chosen, "entropy": -(every.exp() * every).sum(-1)})
    return found


def versions():
    import peft

    return {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}

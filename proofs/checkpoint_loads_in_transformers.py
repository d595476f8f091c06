"""Loads checkpoints and adapters of Troupe with transformers and PEFT and says what they make of them. A worker."""

import os

import peft
import torch
import transformers
from random_models import HEADS, says, versions
from worker import serve


def load(directory, copy, head, rows, texts=(), conversations=(), adapter=None):
    """`copy` is a directory that transformers, or PEFT, writes the same to, as its users would."""
    model, report = HEADS[head].from_pretrained(directory, output_loading_info=True)
    model = model.float().eval()
    missing = sorted(report["missing_keys"]) + sorted(report["unexpected_keys"]) + sorted(map(str, report["mismatched_keys"]))
    # transformers reads a tokenizer of any qwen2 as that of Qwen, whatever class its files name, with Qwen's own pieces of text.
    reader = transformers.PreTrainedTokenizerFast if model.config.model_type == "qwen2" else transformers.AutoTokenizer
    tokenizer = reader.from_pretrained(directory)
    written = model
    if adapter is not None:
        # Says in its own words what an adapter lacks, and fails on a module it does not find.
        written = peft.PeftModel.from_pretrained(model, adapter).eval()
        missing += missing_matrices(written, adapter)
    with torch.no_grad():
        outputs = says(written, head, [row["prompt_ids"] for row in rows], [row["completion_ids"] for row in rows])
    # PEFT would write the model's own matrix beside that of an adapted output, which belongs to no adapter.
    written.save_pretrained(copy, **({} if adapter is None else {"save_embedding_layers": False}))
    tokenizer.save_pretrained(copy)
    return {
        "missing": missing,
        "class": type(model).__name__,
        "outputs": [s["logprob" if head == "lm" else "value"].tolist() for s in outputs],
        **read_with(tokenizer, texts, conversations),
    }


def missing_matrices(model, adapter):
    """Matrices that PEFT made for the adapter and the file does not name, or the other way round."""
    from safetensors import safe_open

    made = {name.replace(".default", "") for name, _ in model.named_parameters() if "lora_" in name}
    with safe_open(os.path.join(adapter, "adapter_model.safetensors"), "pt") as file:
        return sorted(made ^ set(file.keys()))


def read_with(tokenizer, texts, conversations):
    """What the tokenizer and the chat template make of the questions."""
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    chats = []
    for messages in conversations:
        prompt = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, tokenize=False)
        whole = tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        chats.append(
            {
                "prompt_ids": tokenizer.encode(prompt, add_special_tokens=False),
                "ids": list(whole["input_ids"]),
                "mask": list(whole["assistant_masks"]),
            }
        )
    return {
        "encoded": encoded,
        "decoded": [tokenizer.decode(ids) for ids in encoded],
        "chats": chats,
        "special": [tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id],
    }


if __name__ == "__main__":
    serve({"versions": versions, "load": load})

"""Loads a model directory with transformers and says what it makes of it, for comparison with Troupe.

Usage: python checkpoint_loads_in_transformers.py DIR COPY < questions.json > answers.json
DIR is the model; COPY is a directory that transformers writes the same model to, as its users would.
Questions: {"texts": [str], "conversations": [[message]], "rows": [{"prompt_ids": [int], "completion_ids": [int]}]}.
"""

import json
import sys


def main(directory, copy, questions):
    import torch
    import transformers

    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    model = model.float().eval()
    logprobs = []
    with torch.no_grad():
        for row in questions["rows"]:
            ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
            before = len(row["prompt_ids"])
            scores = torch.log_softmax(model(ids).logits[0].double(), dim=-1)
            logprobs.append([scores[before + i - 1, token].item() for i, token in enumerate(row["completion_ids"])])
    model.save_pretrained(copy)
    tokenizer.save_pretrained(copy)
    return {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "missing": sorted(report["missing_keys"]) + sorted(report["unexpected_keys"]),
        "logprobs": logprobs,
        **read_with(tokenizer, questions),
    }


def read_with(tokenizer, questions):
    """What the tokenizer and the chat template make of the questions; needs no torch."""
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in questions["texts"]]
    chats = []
    for messages in questions["conversations"]:
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
    # What a library prints must not get into the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    json.dump(main(sys.argv[1], sys.argv[2], json.load(sys.stdin)), answers)

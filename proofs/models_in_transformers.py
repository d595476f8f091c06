"""Writes random models and adapters and says what transformers and PEFT make of them, for comparison with Troupe. A worker."""

import os
import random

import peft
import torch
from random_models import FIRST_WORD, load, save_random_model, says, versions
from worker import serve


def answer(directory, model, rows, prompts, tokens, adapter=None, seed=0):
    """Log-probabilities, values or rewards of drawn rows, and greedy samples of drawn prompts."""
    rng = random.Random(seed)
    head = model.get("head", "lm")
    save_random_model(directory, **model)
    net = load(directory, head)
    if adapter is not None:
        torch.manual_seed(seed + 1)
        net = peft.get_peft_model(net, peft.LoraConfig(**adapter))
        with torch.no_grad():
            for name, p in net.named_parameters():
                if "lora_B" in name:
                    p.normal_(0.0, 0.2)
        # PEFT would write the model's own matrix beside that of an adapted output, which belongs to no adapter.
        net.save_pretrained(os.path.join(directory, "adapter"), save_embedding_layers=False)
    net.eval()

    def ids(shortest, below):
        return [rng.randrange(FIRST_WORD, net.config.vocab_size) for _ in range(rng.randrange(shortest, below))]

    # Some of one length, some of another; every third has the prompt of the one before.
    asked = []
    for i in range(rows):
        asked.append((asked[-1][0] if i % 3 == 2 else ids(1, 24), ids(2, 36)))
    starts = [ids(1, 24) for _ in range(prompts)] if head == "lm" else []
    with torch.no_grad():
        outputs = says(net, head, [p for p, _ in asked], [c for _, c in asked])
        samples = [sample(net, start, tokens) for start in starts]
    return {
        "rows": [{"prompt_ids": p, "completion_ids": c} for p, c in asked],
        "outputs": [s["logprob" if head == "lm" else "value"].tolist() for s in outputs],
        "prompts": starts,
        "samples": samples,
    }


def sample(net, prompt, tokens):
    """Greedy and with a cache, of one prompt, until the end token; and the log-probability of each token."""
    out = net.generate(
        input_ids=torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=tokens,
        do_sample=False,
        use_cache=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    ids = out.sequences[0, len(prompt) :].tolist()
    logprobs = [torch.log_softmax(logits[0], dim=-1)[token].item() for logits, token in zip(out.logits, ids)]
    return {"token_ids": ids, "logprobs": logprobs}


if __name__ == "__main__":
    serve({"versions": versions, "answer": answer})

"""Trains a model directory with transformers and torch and says how it went, for comparison with Troupe.

Usage: python training_in_pytorch.py DIR < question.json > answer.json
Question: {"loss": "sft" | "clipped-policy", "adam": {...}, "clip": {...}, "rates": [float], "batches": [[sequence]]} where a
sequence is {"prompt_ids", "completion_ids", "weights", "old_logprobs", "entropy_weights"}.
"""

import json
import sys


def main(directory, question):
    import torch
    import transformers

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = transformers.LlamaForCausalLM.from_pretrained(directory).float().train()
    adam = question["adam"]
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": adam["weightDecay"]},
            {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0},
        ],
        betas=(adam["beta1"], adam["beta2"]),
        eps=adam["epsilon"],
    )
    losses, norms = [], []
    for rate, sequences in zip(question["rates"], question["batches"]):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = batch_loss(model, sequences, question)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), adam["clip"]).item())
        optimizer.step()
        losses.append(loss.item())
    return {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "losses": losses,
        "gradient_norms": norms,
        "weights": {name: p.detach().flatten().tolist() for name, p in parameters.items()},
    }


def batch_loss(model, sequences, question):
    """Padded on the right, so that no mask is needed: attention looks back only."""
    import torch

    longest = max(len(s["prompt_ids"]) + len(s["completion_ids"]) for s in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    for row, s in enumerate(sequences):
        whole = s["prompt_ids"] + s["completion_ids"]
        ids[row, : len(whole)] = torch.tensor(whole)
    logp = torch.log_softmax(model(ids).logits, dim=-1)
    total = torch.zeros(())
    for row, s in enumerate(sequences):
        start, count = len(s["prompt_ids"]) - 1, len(s["completion_ids"])
        every = logp[row, start : start + count]
        chosen = every.gather(1, torch.tensor(s["completion_ids"])[:, None])[:, 0]
        weights = torch.tensor(s["weights"])
        if question["loss"] == "sft":
            total = total - (weights * chosen).sum()
            continue
        ratio = torch.exp(torch.clamp(chosen - torch.tensor(s["old_logprobs"]), -20, 20))
        clipped = torch.clamp(ratio, 1 - question["clip"]["clipLow"], 1 + question["clip"]["clipHigh"])
        entropy = -(every.exp() * every).sum(-1)
        total = total - torch.minimum(weights * ratio, weights * clipped).sum()
        total = total - (torch.tensor(s["entropy_weights"]) * entropy).sum()
    return total


if __name__ == "__main__":
    # What a library prints must not get into the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(main(sys.argv[1], json.load(sys.stdin)), answer)

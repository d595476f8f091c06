"""Trains random models with transformers, PEFT, torch's autograd and AdamW, for comparison with Troupe. A worker.

The losses are written here from their formulas, over the completions of a batch: `outputs` are the model's for each
(see `random_models.says`), `rows` are the rows they are in.
"""

import os
import random

import peft
import torch
from random_models import FIRST_WORD, load, save_random_model, says, versions
from worker import serve


# ── means ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def token_mean(losses, completions):
    masks = [torch.tensor(c["mask"], dtype=torch.float32) for c in completions]
    return sum((x * m).sum() for x, m in zip(losses, masks)) / sum(m.sum() for m in masks)


def sequence_mean(losses, completions):
    """Of each sequence that has a trained token."""
    masks = [torch.tensor(c["mask"], dtype=torch.float32) for c in completions]
    means = [(x * m).sum() / m.sum() for x, m in zip(losses, masks) if m.sum() > 0]
    return sum(means) / len(means)


def every_sequence_mean(losses, completions):
    """Sequences without a trained token count as 0."""
    masks = [torch.tensor(c["mask"], dtype=torch.float32) for c in completions]
    return sum((x * m).sum() / m.sum().clamp(min=1) for x, m in zip(losses, masks)) / len(completions)


def constant_length(losses, completions):
    """Sum over tokens, divided by the longest sequence; the mean over all sequences."""
    longest = max(len(c["token_ids"]) for c in completions)
    masks = [torch.tensor(c["mask"], dtype=torch.float32) for c in completions]
    return sum((x * m).sum() for x, m in zip(losses, masks)) / longest / len(completions)


# ── losses ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sft(outputs, rows, mean, entropy=0.0):
    completions = flat(rows)
    loss = mean([-s["logprob"] for s in outputs], completions)
    return loss - entropy * mean([s["entropy"] for s in outputs], completions) if entropy else loss


def surrogate(advantage, ratio, low, high, dual):
    worst = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - low, 1 + high))
    if dual is None:
        return worst
    return torch.where(advantage < 0, torch.minimum(worst, -advantage * dual), worst)


def policy(outputs, rows, mean, low=0.2, high=0.2, dual=3.0, entropy=0.0, kl=0.0):
    completions = flat(rows)
    losses = []
    for s, c in zip(outputs, completions):
        ratio = torch.exp((s["logprob"] - torch.tensor(c["old_logprobs"])).clamp(-20, 20))
        losses.append(surrogate(torch.tensor(c["advantage"]), ratio, low, high, dual))
    loss = mean(losses, completions)
    if entropy:
        loss = loss - entropy * mean([s["entropy"] for s in outputs], completions)
    if kl:
        back = [torch.tensor(c["ref_logprobs"]) - s["logprob"] for s, c in zip(outputs, completions)]
        loss = loss + kl * mean([(d.exp() - d - 1).clamp(-10, 10) for d in back], completions)
    return loss


def one_turn(completion):
    """All that is trained of a completion as one turn."""
    turns = [0 if on else -100 for on in completion["mask"]]
    return {**completion, "turns": turns, "advantages": [completion["advantage"]] * len(turns)}


def turn_ratio(outputs, completions, trajectory, low=0.2, high=0.2, dual=3.0):
    """One ratio a turn: the exponential of its mean log-ratio. The mean over turns, or over those of a sequence and then over sequences."""
    sequences = []
    for s, c in zip(outputs, completions):
        log_ratio = s["logprob"] - torch.tensor(c["old_logprobs"])
        turn, advantage = torch.tensor(c["turns"]), torch.tensor(c["advantages"])
        losses = []
        for number in sorted(set(c["turns"]) - {-100}):
            of = turn == number
            losses.append(surrogate(advantage[of].mean(), log_ratio[of].mean().clamp(max=3).exp(), low, high, dual))
        if losses:
            sequences.append(losses)
    if trajectory:
        return sum(sum(turns) / len(turns) for turns in sequences) / len(sequences)
    return sum(sum(turns) for turns in sequences) / sum(map(len, sequences))


def dpo(outputs, rows, beta=0.1, smoothing=0.0):
    losses = []
    pairs = zip(outputs[::2], outputs[1::2])
    for (chosen, rejected), row in zip(pairs, rows):
        gains = []
        for s, c in zip((chosen, rejected), row["completions"]):
            mask = torch.tensor(c["mask"], dtype=torch.float32)
            gains.append((mask * s["logprob"]).sum() - (mask * torch.tensor(c["start_logprobs"])).sum())
        margin = beta * (gains[0] - gains[1])
        right, wrong = -torch.nn.functional.logsigmoid(margin), -torch.nn.functional.logsigmoid(-margin)
        losses.append((1 - smoothing) * right + smoothing * wrong)
    return sum(losses) / len(losses)


def value_regression(outputs, rows, error):
    completions = flat(rows)
    return token_mean([error(s["value"], torch.tensor(c["returns"])) for s, c in zip(outputs, completions)], completions)


def huber(value, target):
    return torch.nn.functional.huber_loss(value, target, reduction="none", delta=0.1) / 0.1


def cross_entropy(value, target):
    return torch.nn.functional.binary_cross_entropy_with_logits(value, torch.sigmoid(target), reduction="none")


def bradley_terry(outputs, rows):
    margins = [(chosen["value"] - rejected["value"]).squeeze() for chosen, rejected in zip(outputs[::2], outputs[1::2])]
    return -sum(torch.nn.functional.logsigmoid(margin) for margin in margins) / len(margins)


LOSSES = {
    "token-mean": lambda s, r: sft(s, r, token_mean),
    "sequence-mean": lambda s, r: sft(s, r, sequence_mean),
    "entropy": lambda s, r: sft(s, r, token_mean, entropy=0.05),
    "clipped-policy": lambda s, r: policy(s, r, every_sequence_mean, high=0.28, dual=None, entropy=0.02),
    "ppo": lambda s, r: policy(s, r, token_mean),
    "grpo": lambda s, r: policy(s, r, sequence_mean, kl=0.1),
    "dr-grpo": lambda s, r: policy(s, r, constant_length),
    "dapo": lambda s, r: policy(s, r, token_mean, high=0.28, entropy=0.02),
    "turn-ratio": lambda s, r: turn_ratio(s, map(one_turn, flat(r)), trajectory=False),
    "turn-ratio-trajectory": lambda s, r: turn_ratio(s, flat(r), trajectory=True),
    "dpo": lambda s, r: dpo(s, r, beta=0.3),
    "dpo-smoothed": lambda s, r: dpo(s, r, beta=0.1, smoothing=0.1),
    "value-mse": lambda s, r: value_regression(s, r, lambda value, target: (value - target) ** 2),
    "value-huber": lambda s, r: value_regression(s, r, huber),
    "value-cross-entropy": lambda s, r: value_regression(s, r, cross_entropy),
    "bradley-terry": bradley_terry,
}


# ── rows ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def flat(rows):
    return [c for row in rows for c in row["completions"]]


def draw_rows(rng, vocab_size, rows, completions, untrained):
    """Rows of different lengths, some of whose tokens, and of whose completions the share `untrained`, are not trained."""

    def word():
        return rng.randrange(FIRST_WORD, vocab_size)

    def completion(length):
        # Learnable: it counts up from its first token.
        first = word()
        ids = [FIRST_WORD + (first + t) % (vocab_size - FIRST_WORD) for t in range(length)]
        mask = [int(rng.random() < 0.8) for _ in ids]
        mask[rng.randrange(length)] = 1
        if rng.random() < untrained:
            mask = [0] * length
        turns, turn = [], 0
        for on in mask:
            turn += rng.random() < 0.3
            turns.append(turn if on else -100)
        return {
            "token_ids": ids,
            "mask": mask,
            "advantage": rng.gauss(0, 1),
            "turns": turns,
            "advantages": [rng.gauss(0, 1) for _ in ids],
        }

    return [
        {
            "prompt_ids": [word() for _ in range(rng.randrange(1, 12))],
            "completions": [completion(rng.randrange(2, 10)) for _ in range(completions)],
        }
        for _ in range(rows)
    ]


def add_columns(rng, model, head, rows):
    """Log-probabilities as the tokens were sampled, and of a reference: near those of the model now, and far enough that bounds decide."""
    with torch.no_grad():
        outputs = say(model, head, rows)
    for s, c in zip(outputs, flat(rows)):
        if head == "lm":
            start = s["logprob"].tolist()
            c["start_logprobs"] = start
            c["old_logprobs"] = [x + rng.gauss(0, 0.6) for x in start]
            c["ref_logprobs"] = [x + rng.gauss(0, 0.4) for x in start]
        elif head == "value":
            start = s["value"].tolist()
            c["returns"] = [x + rng.gauss(0, 1) for x in start]


def say(model, head, rows):
    prompts = [row["prompt_ids"] for row in rows for _ in row["completions"]]
    return says(model, head, prompts, [c["token_ids"] for c in flat(rows)])


# ── training ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit(model, head, loss, batches, steps, adam):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": adam["weightDecay"]},
            {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=adam["learningRate"],
        betas=(adam["beta1"], adam["beta2"]),
        eps=adam["epsilon"],
    )
    # Gradients flow all the same, and the value head of transformers, which has dropout by default, has none.
    model.eval()
    losses, norms = [], []
    for step in range(steps):
        rows = batches[step % len(batches)]
        optimizer.zero_grad()
        value = LOSSES[loss](say(model, head, rows), rows)
        value.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, adam["clip"]).item())
        optimizer.step()
        losses.append(value.item())
    return losses, norms


def train(directory, model, loss, batches, rows, completions, steps, adam, adapter=None, seed=0, untrained=0.0):
    """Writes a random model and perhaps an adapter of PEFT, draws rows, trains, and writes what came of it."""
    rng = random.Random(seed)
    head = model.get("head", "lm")
    save_random_model(directory, **model)
    net = load(directory, head)
    drawn = [draw_rows(rng, net.config.vocab_size, rows, completions, untrained) for _ in range(batches)]
    for batch in drawn:
        add_columns(rng, net, head, batch)
    if adapter is not None:
        torch.manual_seed(seed + 1)
        fields = {name: value for name, value in adapter.items() if name != "begun"}
        net = peft.get_peft_model(net, peft.LoraConfig(bias="none", **fields))
        if adapter.get("begun"):
            with torch.no_grad():
                for name, p in net.named_parameters():
                    if "lora_B" in name:
                        p.normal_(0.0, 0.1)
        save(net, os.path.join(directory, "adapter"))
    losses, norms = fit(net, head, loss, drawn, steps, adam)
    save(net, os.path.join(directory, "trained"))
    return {"batches": drawn, "losses": losses, "gradient_norms": norms}


def save(net, directory):
    # PEFT would write the model's own matrix beside that of an adapted output, which belongs to no adapter.
    net.save_pretrained(directory, **({"save_embedding_layers": False} if isinstance(net, peft.PeftModel) else {}))


def train_on(directory, rows, batch, loss, steps, adam, adapter=None):
    """Supervised training on given rows in the order they have, from the first again after the last; `adapter` is a directory."""
    net = load(directory)
    if adapter is not None:
        net = peft.PeftModel.from_pretrained(net, adapter, is_trainable=True)
    rows = [as_row(row) for row in rows]
    taken = [[rows[(step * batch + i) % len(rows)] for i in range(batch)] for step in range(steps)]
    losses, norms = fit(net, "lm", loss, taken, steps, adam)
    return {"losses": losses, "gradient_norms": norms}


def as_row(row):
    ids = row["input_ids"]
    # Nothing comes before the first token, which is never learnt.
    return {"prompt_ids": ids[:1], "completions": [{"token_ids": ids[1:], "mask": row["loss_mask"][1:]}]}


def logprobs(directory, rows, adapter):
    with torch.no_grad():
        net = load_once(directory, adapter)
        return [says(net, "lm", [ids[:1]], [ids[1:]])[0]["logprob"].tolist() for ids in rows]


def greedy(directory, prompts, tokens, adapter):
    net = load_once(directory, adapter)
    samples = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        whole = net.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False
        )
        samples.append(whole[0, len(prompt) :].tolist())
    return samples


loaded = {}


def load_once(directory, adapter):
    key = (directory, adapter)
    if key not in loaded:
        net = load(directory)
        loaded[key] = (net if adapter is None else peft.PeftModel.from_pretrained(net, adapter)).eval()
    return loaded[key]


def make(directory, model):
    save_random_model(directory, **model)


if __name__ == "__main__":
    serve(
        {
            "versions": versions,
            "make": make,
            "train": train,
            "train_on": train_on,
            "logprobs": logprobs,
            "greedy": greedy,
        }
    )

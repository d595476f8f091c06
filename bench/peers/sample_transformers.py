"""The side of transformers in `bench sample`: generate with its cache, greedy, from the same model directory."""

import torch
import transformers

from lines import peak, resident, serve, timed

baseline = resident()
state = {}


def open_model(question):
    torch.set_num_threads(question["threads"])
    state["model"] = transformers.AutoModelForCausalLM.from_pretrained(
        question["dir"], dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    return {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}}


def generate(question):
    batches = [torch.tensor(prompts) for prompts in question["batches"]]
    tokens, spent = timed(lambda: [continued(prompts, question["tokens"]) for prompts in batches])
    return {"tokens": tokens, **spent}


def continued(prompts, tokens):
    with torch.inference_mode():
        ids = state["model"].generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            use_cache=True,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
        )
    return ids[:, prompts.shape[1] :].tolist()


serve({"open": open_model, "generate": generate, "memory": lambda _: {"baseline": baseline, "peak": peak()}})

"""PyTorch's side of `bench train`: the same model directory, the same batches, a plain training loop."""

import torch
import transformers

from lines import peak, resident, serve, timed

baseline = resident()
state = {}


def open_model(question):
    adam = question["adam"]
    torch.manual_seed(0)
    torch.set_num_threads(question["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        question["dir"], dtype=torch.float32, attn_implementation="sdpa"
    ).train()
    model.config.use_cache = False
    if question["adapter"]:
        import peft

        model = peft.PeftModel.from_pretrained(model, question["adapter"], is_trainable=True)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": adam["weightDecay"]},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=adam["learningRate"],
        betas=(adam["beta1"], adam["beta2"]),
        eps=adam["epsilon"],
        fused=True if question.get("fused") else None,
    )
    run = torch.compile(model) if question.get("compile") else model
    state.update(run=run, parameters=parameters, optimizer=optimizer, clip=adam["clip"])
    return {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}}


def steps(question):
    # A data loader would hand over tensors, so making them is not part of the step.
    batches = [torch.tensor(batch) for batch in question["batches"]]
    losses, spent = timed(lambda: [step(ids) for ids in batches])
    return {"losses": losses, **spent}


def step(ids):
    loss = state["run"](input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state["parameters"], state["clip"])
    state["optimizer"].step()
    state["optimizer"].zero_grad()
    return loss.item()


serve({"open": open_model, "steps": steps, "memory": lambda _: {"baseline": baseline, "peak": peak()}})

"""TRL's side of `bench train-trl`: SFTTrainer on rows of token ids, one whole run of it a question."""

import tempfile

import datasets
import torch
import transformers
import trl

from lines import peak, resident, serve, timed

baseline = resident()
state = {}


def open_model(question):
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(question["threads"])
    state.update(question, folder=tempfile.TemporaryDirectory())
    state["model"] = transformers.AutoModelForCausalLM.from_pretrained(question["dir"], dtype=torch.float32)
    state["tokenizer"] = transformers.AutoTokenizer.from_pretrained(question["dir"])
    return {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__}
    }


def steps(question):
    adam, batches = state["adam"], question["batches"]
    arguments = trl.SFTConfig(
        output_dir=state["folder"].name,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1,
        gradient_checkpointing=state["checkpointing"],
        per_device_train_batch_size=len(batches[0]),
        max_steps=len(batches),
        # The rows come in a random order already; both sides must see the same batches.
        train_sampling_strategy="sequential",
        lr_scheduler_type="constant",
        learning_rate=adam["learningRate"],
        adam_beta1=adam["beta1"],
        adam_beta2=adam["beta2"],
        adam_epsilon=adam["epsilon"],
        weight_decay=adam["weightDecay"],
        max_grad_norm=adam["clip"],
    )
    rows = datasets.Dataset.from_dict({"input_ids": [ids for batch in batches for ids in batch]})
    trainer = trl.SFTTrainer(state["model"], arguments, train_dataset=rows, processing_class=state["tokenizer"])
    trainer.remove_callback(transformers.PrinterCallback)
    _, spent = timed(trainer.train)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"losses": losses, **spent}


serve({"open": open_model, "steps": steps, "memory": lambda _: {"baseline": baseline, "peak": peak()}})

"""A training program of a plan: TRL's SFTTrainer over an exported dataset, configured by its environment."""

import json
import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import datasets
import torch
import transformers
import trl

torch.set_num_threads(1)
BASE, OUT = os.environ["TROUPE_BASE"], os.environ["TROUPE_OUT"]


class Metrics(transformers.TrainerCallback):
    """Writes what the trainer logs of a step as a line of JSON."""

    def on_log(self, args, state, control, logs=None, **_):
        with open(os.environ["TROUPE_METRICS"], "a") as file:
            numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))}
            # It trains on this machine and calls nothing, so it uses none of a budget.
            file.write(json.dumps({"step": state.global_step, "tokens": 0, "usd": 0, **numbers}) + "\n")


def main():
    with open(os.environ["TROUPE_PARAMS"]) as file:
        params = json.load(file)
    rows = datasets.load_dataset(os.environ["TROUPE_DATASET"], cache_dir=os.path.join(os.path.dirname(OUT), "cache"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(BASE)
    config = trl.SFTConfig(
        output_dir=os.path.join(os.path.dirname(OUT), "trl"),
        seed=int(os.environ["TROUPE_SEED"]),
        logging_steps=5,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        **params,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    trainer = trl.SFTTrainer(
        model, args=config, train_dataset=rows["train"], processing_class=tokenizer, callbacks=[Metrics()]
    )
    trainer.train()
    model.save_pretrained(OUT)
    tokenizer.save_pretrained(OUT)
    print(f"trained {len(rows['train'])} rows with TRL {trl.__version__}")


main()

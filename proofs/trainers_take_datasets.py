"""What Hugging Face datasets and TRL make of exported folders: rows as they were recorded, and two steps of each trainer.

Arguments: a folder with one folder for each layout, and a model. Prints a JSON object: for each layout its splits, features and first
row, and for those with messages what chat templates make of them; for each trainer its losses; and every warning that was given.
"""

import json
import logging
import os
import sys
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=tempfile.mkdtemp())
os.environ.update(TOKENIZERS_PARALLELISM="false", HF_DATASETS_DISABLE_PROGRESS_BARS="1", TQDM_DISABLE="1")

import datasets
import torch
import transformers
import trl

torch.set_num_threads(1)
FOLDER, MODEL = sys.argv[1:]
STEPS = 2
caught = []


class Listener(logging.Handler):
    def emit(self, record):
        caught.append(f"{record.name}: {record.getMessage()}")


def listen():
    for name in ("datasets", "trl", "transformers", "accelerate"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(Listener(logging.WARNING))
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, file, line, *_: caught.append(f"{os.path.basename(file)}: {message}")


def options(config, **more):
    return config(
        output_dir=tempfile.mkdtemp(),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        **more,
    )


def length(completions, **columns):
    """A reward that is given the other columns: whether the answer is there, as text of the row."""
    assert all(isinstance(truth, str) for truth in columns["ground_truth"])
    return [float(len(completion[0]["content"])) for completion in completions]


def trainer(name, dataset):
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    if name == "GRPOTrainer":
        args = options(trl.GRPOConfig, num_generations=4, max_completion_length=8)
        return trl.GRPOTrainer(model, reward_funcs=length, args=args, train_dataset=dataset, processing_class=tokenizer)
    config = {"SFTTrainer": trl.SFTConfig, "DPOTrainer": trl.DPOConfig, "KTOTrainer": trl.KTOConfig}[name]
    return getattr(trl, name)(model, args=options(config), train_dataset=dataset, processing_class=tokenizer)


def learnt(name, at):
    """What the first row of SFT learns: its tokens, and in words; nothing for another trainer."""
    if name != "SFTTrainer":
        return None
    batch = at.data_collator([at.train_dataset[0]])
    labels = batch["labels"][0]
    ids = labels[labels != -100]
    return {"ids": ids.tolist(), "text": at.processing_class.decode(ids)}


# Templates in the manner of three kinds of models, which ask in their own ways what a message has.
TEMPLATES = {
    "ChatML with thoughts": """
{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{%- if message.reasoning_content is string %}
<think>
{{ message.reasoning_content.strip() }}
</think>
{%- endif %}
{{ message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}
{%- endif %}<|im_end|>
{% endfor %}""",
    "headers, one call a message": """
{%- for message in messages %}
{%- if 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception("one call at once") }}{% endif %}
{%- set call = message.tool_calls[0].function %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}<|eot_id|>
{%- elif message.role == "tool" %}<|start_header_id|>ipython<|end_header_id|>

{{ message.content | tojson }}<|eot_id|>
{%- else %}<|start_header_id|>{{ message.role }}<|end_header_id|>

{{ message.content | trim }}<|eot_id|>
{%- endif %}
{%- endfor %}""",
    "marks in brackets": """
{%- for message in messages %}
{%- if message.role == "user" or message.role == "system" %}[INST]{{ message.content }}[/INST]
{%- elif message.tool_calls is defined %}[TOOL_CALLS]
{%- for call in message.tool_calls %}{{ call.function.name }}{{ call.function.arguments | tojson }}
{%- if call.id is not defined or call.id | length == 0 %}{{ raise_exception("a call without an id") }}{% endif %}
{%- endfor %}</s>
{%- elif message.role == "tool" %}[TOOL_RESULTS]{{ message.tool_call_id }} {{ message.content }}[/TOOL_RESULTS]
{%- elif message.name is defined %}{{ message.name.upper() }}: {{ message.content }}</s>
{%- else %}{{ message.content }}</s>
{%- endif %}
{%- endfor %}""",
}
# What a trainer hands to a chat template as it stands.
RENDERED = ("trl-sft", "trl-preference", "trl-unpaired", "trl-prompts", "everything", "verl-sft")
MESSAGES = ("prompt", "completion", "chosen", "rejected", "messages")


def rendered(rows, tokenizer):
    """For each template how many lists of messages it writes, and why it does not write the others."""
    found = {}
    for name, template in TEMPLATES.items():
        texts, refused = 0, []
        for row in rows:
            for column in MESSAGES:
                if not isinstance(row.get(column), list):
                    continue
                try:
                    tokenizer.apply_chat_template(
                        row[column], tools=row.get("tools"), chat_template=template, tokenize=False
                    )
                    texts += 1
                except Exception as error:
                    refused.append(f"{column}: {error!r}")
        found[name] = {"texts": texts, "refused": refused}
    return found


def main():
    listen()
    templated = transformers.AutoTokenizer.from_pretrained(MODEL)
    layouts, trainers = {}, {}
    for name in sorted(os.listdir(FOLDER)):
        loaded = datasets.load_dataset(os.path.join(FOLDER, name))
        layouts[name] = {
            "splits": {split: len(rows) for split, rows in loaded.items()},
            "columns": loaded["train"].column_names,
            "first": loaded["train"][0],
            **({"rendered": rendered(loaded["train"], templated)} if name in RENDERED else {}),
        }
    for name, layout in [
        ("SFTTrainer", "trl-sft"),
        ("SFTTrainer", "trl-tokens"),
        ("DPOTrainer", "trl-preference"),
        ("KTOTrainer", "trl-unpaired"),
        ("GRPOTrainer", "trl-prompts"),
    ]:
        at = trainer(name, datasets.load_dataset(os.path.join(FOLDER, layout))["train"])
        at.train()
        losses = [entry["loss"] for entry in at.state.log_history if "loss" in entry]
        trainers[layout] = {"trainer": name, "losses": losses, "learnt": learnt(name, at)}
    versions = {"trl": trl.__version__, "datasets": datasets.__version__, "transformers": transformers.__version__}
    json.dump({"versions": versions, "layouts": layouts, "trainers": trainers, "warnings": caught}, sys.stdout)


main()

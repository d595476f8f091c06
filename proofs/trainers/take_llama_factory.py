"""LLaMA-Factory on exported folders: its own loader aligns the rows and makes the tokens and labels.

Arguments: the frozen dataset, the folder of its layouts, a model. Prints a JSON object.
"""

import json
import os
import re
import sys
import tempfile

from frozen import compact, compared, object_of, rows, tokenizer_at
from listener import listen

caught = listen("llamafactory", "transformers", "datasets")

import importlib.metadata

from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.data.loader import _get_merged_dataset
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer

DIRECTORY, FOLDER, MODEL = sys.argv[1:]
ROLES = {"user": "user", "tool": "observation", "system": "system", "assistant": "assistant"}
THOUGHTS = re.compile(r"^<think>\n(.*?)\n</think>\n\n", re.DOTALL)
MARKED = re.compile(r"\n?<tool_call>(.*)</tool_call>$", re.DOTALL)


def arguments_for(layout, dataset, stage):
    """What it makes of a configuration of these; without bf16 it recommends it."""
    return get_train_args(
        {
            "model_name_or_path": MODEL,
            "stage": stage,
            "do_train": True,
            "finetuning_type": "full",
            "dataset_dir": os.path.join(FOLDER, layout),
            "dataset": dataset,
            "template": "qwen",
            "cutoff_len": 2**20,
            "output_dir": tempfile.mkdtemp(),
            "overwrite_cache": True,
            "preprocessing_num_workers": 1,
            "report_to": "none",
            "use_cpu": True,
            "bf16": True,
        }
    )[:3]


def frozen_message(message):
    calls = [[one["function"]["name"], object_of(one["function"]["arguments"])] for one in message["tool_calls"]]
    return [ROLES[message["role"]], message["reasoning_content"], message["content"], calls]


def in_order(tools):
    """Definitions with their members by name: a layout writes them in the order in which a policy is shown them."""
    return json.loads(json.dumps(tools, sort_keys=True))


def apart(content):
    """The thoughts before a text, and the text."""
    thoughts = THOUGHTS.match(content)
    return (thoughts.group(1), content[thoughts.end() :]) if thoughts else (None, content)


def aligned_message(message):
    """A message of LLaMA-Factory with thoughts, text and calls apart."""
    thoughts, content = apart(message["content"])
    if message["role"] != "function":
        return [message["role"], thoughts, content, []]
    marked = MARKED.search(content)
    text = content[: marked.start()] if marked else ""
    calls = json.loads(marked.group(1) if marked else content)
    return ["assistant", thoughts, text, [[one["name"], one["arguments"]] for one in (calls if isinstance(calls, list) else [calls])]]


def answers(row, prompt):
    """Of a conversation each answer behind what is before it, with system prompt and tools."""
    messages = [["system", None, row["_system"], []]] if row["_system"] else []
    tools = in_order(json.loads(row["_tools"])) if row["_tools"] else None
    for message in prompt:
        messages = [*messages, aligned_message(message)]
        if messages[-1][0] == "assistant":
            yield [messages, tools]


def parsed(text):
    """What was learnt, as thoughts, text and calls, in the words of the template."""
    thoughts, answer = apart(text.rstrip("\n").removesuffix("<|im_end|>"))
    calls = [json.loads(one) for one in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", answer, re.DOTALL)]
    return [thoughts, re.sub(r"\n?<tool_call>\n.*", "", answer, flags=re.DOTALL), [[one["name"], one["arguments"]] for one in calls]]


def learnt(tokenizer, labels):
    """The text of each run of learnt tokens."""
    runs, run = [], []
    for label in [*labels, -100]:
        if label != -100:
            run.append(label)
        elif run:
            runs.append(tokenizer.decode(run))
            run = []
    return runs


def main():
    layouts = {}
    with open(os.path.join(FOLDER, "llama-factory-sft", "dataset_info.json"), encoding="utf-8") as info:
        dataset = next(iter(json.load(info))).removesuffix("_train")
    for split, turns in rows(DIRECTORY, said=True).items():
        name = f"{dataset}_{split}"
        expected = [[[frozen_message(message) for message in turn["messages"]], in_order(turn["tools"])] for turn in turns]
        args = arguments_for("llama-factory-sft", name, "sft")
        module = load_tokenizer(args[0])
        template = get_template_and_fix_tokenizer(module["tokenizer"], args[1])
        aligned = _get_merged_dataset([name], *args, stage="sft")
        found = [one for row in aligned for one in answers(row, [*row["_prompt"], *row["_response"]])]
        layouts[f"{split} of llama-factory-sft"] = compared(expected, found)
        made = get_dataset(template, *args, stage="sft", **module)["train_dataset"]
        runs = [parsed(run) for row in made for run in learnt(module["tokenizer"], row["labels"])]
        layouts[f"what is learnt of {split} of llama-factory-sft"] = compared([one[0][-1][1:] for one in expected], runs)
        if not os.path.exists(os.path.join(FOLDER, "llama-factory-dpo", f"{split}.jsonl")):
            continue
        args = arguments_for("llama-factory-dpo", name, "dpo")
        aligned = _get_merged_dataset([name], *args, stage="rm")
        known = {compact(one) for one in expected}
        sides = [
            [*answers(row, [*row["_prompt"], side])][-1] for row in aligned for side in row["_response"]
        ]
        layouts[f"{split} of llama-factory-dpo"] = compared([one for one in sides if compact(one) in known], sides)
        made = get_dataset(template, *args, stage="rm", **module)["train_dataset"]
        runs = [
            [parsed(run) for run in learnt(module["tokenizer"], row[side])]
            for row in made
            for side in ("chosen_labels", "rejected_labels")
        ]
        layouts[f"what is learnt of {split} of llama-factory-dpo"] = compared([[one[0][-1][1:]] for one in sides], runs)
    versions = {"LLaMA-Factory": importlib.metadata.version("llamafactory")}
    json.dump({"versions": versions, "layouts": layouts, "warnings": caught}, sys.stdout)


main()

"""verl on exported folders: what MultiTurnSFTDataset learns, alone and with the class of the folder, and what RLHFDataset asks.

Arguments: the frozen dataset, the folder of its layouts, a model. Prints a JSON object.
"""

import json
import os
import sys

from frozen import compact, compared, rendered, rows, segments, tokenizer_at
from listener import listen

caught = listen("verl", "transformers", "datasets")

import pyarrow.parquet
import verl
from omegaconf import OmegaConf
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.import_utils import load_extern_object

DIRECTORY, FOLDER, MODEL = sys.argv[1:]


def learnt(tokenizer, of, file):
    config = OmegaConf.create({"max_length": 2**20, "pad_mode": "no_padding", "truncation": "error"})
    dataset = of([file], tokenizer, config)
    return [one for item in dataset for one in segments(tokenizer, item["input_ids"], item["loss_mask"].tolist())]


def asked(turns):
    """Each prompt without calls once, with the right answer as text."""
    found = {}
    for turn in turns:
        prompt, truth = turn["messages"][:-1], turn["truth"]
        if truth is not None and not any(message["tool_calls"] for message in prompt):
            key = compact([[message["role"], message["content"]] for message in prompt])
            found.setdefault(key, (json.loads(key), truth if isinstance(truth, str) else compact(truth)))
    return [*found.values()]


def main():
    tokenizer = tokenizer_at(MODEL)
    layouts = {}
    sft, rl = (os.path.join(FOLDER, name) for name in ("verl-sft", "verl-rl"))
    own = os.path.join(sft, "troupe_verl.py")
    # As verl's trainers read data.custom_cls.
    by_folder = load_extern_object(own, "ToolConversations") if os.path.exists(own) else None
    for split, turns in rows(DIRECTORY, said=True).items():
        file = os.path.join(sft, f"{split}.parquet")
        if by_folder is not None:
            expected = [rendered(tokenizer, turn) for turn in turns]
            layouts[f"{split} of verl-sft by troupe_verl.py"] = compared(expected, learnt(tokenizer, by_folder, file))
        # Without the class verl takes conversations whose members are the same in all messages.
        columns = pyarrow.parquet.read_schema(file)
        if pyarrow.types.is_struct(columns.field("messages").type.value_type):
            tools = "tools" in columns.names
            alone = [rendered(tokenizer, turn, tools=tools) for turn in turns]
            how = "with" if tools else "without"
            layouts[f"{split} of verl-sft {how} tools"] = compared(alone, learnt(tokenizer, MultiTurnSFTDataset, file))
        config = OmegaConf.create({"cache_dir": os.environ["HF_HOME"], "max_prompt_length": 2**20})
        asks = RLHFDataset(os.path.join(rl, f"{split}.parquet"), tokenizer, config)
        found = [
            ([[one["role"], one["content"]] for one in ask["raw_prompt"]], ask["reward_model"]["ground_truth"])
            for ask in asks
        ]
        layouts[f"{split} of verl-rl"] = compared(asked(turns), found)
    json.dump({"versions": {"verl": verl.__version__}, "layouts": layouts, "warnings": caught}, sys.stdout)


main()

"""Axolotl on an exported folder: `prepare_datasets`, which `axolotl preprocess` calls, with the datasets of axolotl.yaml as it stands.

Arguments: the frozen dataset, the folder of its layouts, a model. Prints a JSON object.
"""

import importlib.metadata
import json
import os
import sys
import tempfile

from frozen import compared, rendered, rows, segments, tokenizer_at
from listener import listen

caught = listen("axolotl", "transformers", "datasets")
os.environ.update(AXOLOTL_DO_NOT_TRACK="1", AXOLOTL_IS_PREPROCESS="1", TRL_EXPERIMENTAL_SILENCE="1")


def main():
    # Axolotl maps and saves in processes of its own, each of which reads this file: what is imported here is read once.
    import yaml
    from axolotl.utils.data import prepare_datasets
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.datasets import SFTDataset

    directory, folder, model = map(os.path.abspath, sys.argv[1:])
    tokenizer = tokenizer_at(model)
    os.chdir(os.path.join(folder, "axolotl"))
    with open("axolotl.yaml", encoding="utf-8") as text:
        written = yaml.safe_load(text)
    for entries in written.values():
        for entry in entries:
            unknown = set(entry) - set(SFTDataset.model_fields)
            assert not unknown, f"Axolotl knows no {unknown}"
            SFTDataset(**entry)
    config = {
        **written,
        "sequence_len": 2**20,
        "val_set_size": 0,
        "seed": 0,
        "is_preprocess": True,
        "dataset_prepared_path": tempfile.mkdtemp(),
        "chat_template": "tokenizer_default",
        "train_on_inputs": False,
        "min_sample_len": 1,
    }
    train, test, _, _ = prepare_datasets(DictDefault(config), tokenizer)
    layouts = {}
    frozen = rows(directory)
    for split, dataset in (("train", train), ("held_out", test)):
        found = [
            one for row in dataset for one in segments(tokenizer, row["input_ids"], [label != -100 for label in row["labels"]])
        ]
        layouts[f"{split} of axolotl"] = compared([rendered(tokenizer, turn) for turn in frozen[split]], found)
    versions = {"Axolotl": importlib.metadata.version("axolotl")}
    json.dump({"versions": versions, "layouts": layouts, "warnings": caught}, sys.stdout)


if __name__ == "__main__":
    main()

/** The class by which verl gets tools and arguments as they were: a column of Parquet has one type, so what differs from row to row is text there. */

export const VERL_CLASS_FILE = 'troupe_verl.py';

export const VERL_CLASS = `"""Conversations of this folder for verl, with the definitions of tools and the arguments of calls as they were recorded.

A column of Parquet has one type for all rows, so what differs from row to row is JSON text there. Say to verl's trainer:
data.custom_cls.path=FOLDER/${VERL_CLASS_FILE} data.custom_cls.name=ToolConversations
"""

import json

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset


class ToolConversations(MultiTurnSFTDataset):
    def _read_files_and_process(self):
        super()._read_files_and_process()
        if "tools_json" in self.dataframe.columns:
            self.tools = [json.loads(tools) for tools in self.dataframe["tools_json"]]

    def _build_messages(self, example):
        messages = super()._build_messages(example)
        for message in messages:
            for call in message.get("tool_calls") or []:
                call["function"]["arguments"] = arguments_of(call["function"]["arguments"])
        return messages


def arguments_of(text):
    """An object where the model wrote one, else the text that it wrote."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
`;

/** The class by which verl gets tools and arguments as they were: a column of Parquet has one type, so what differs from row to row is text there. */

export const VERL_CLASS_FILE = 'troupe_verl.py';

export const VERL_CLASS = `"""Conversations of this folder for verl, with messages and the definitions of tools as they were recorded.

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
        messages = [json.loads(one) if isinstance(one, str) else one for one in example[self.messages_key]]
        return super()._build_messages({**example, self.messages_key: messages})
`;

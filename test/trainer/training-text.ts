/** Models with chat templates in the manner of published ones, and steps as a dataset gives them. */

import { canonicalJson } from '../../ingest/events/json.ts';
import { escapeText, mapStrings } from '../../ingest/events/text.ts';
import { toMessage } from '../../ingest/formats/kit/chat-message.ts';
import { NESTED } from '../../store/datasets/nested-columns.ts';
import { partsOf, textOf } from '../../store/tables/projection.ts';
import type { StepRow } from '../../trainer/learn/data/training-rows.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { type NamedTemplate, SPECIAL } from './chat-templates.ts';

const LEARNT_OF =
  'weather in Rome and Oslo: "type": "function", "name": "description": "parameters": {"properties": {"city": "string"}}, "required" arguments object tool_call tools Be brief. Sun. Rain.';
const files = trainBpe([Array(9).fill(LEARNT_OF).join('\n')], {
  vocabSize: 600,
  special: SPECIAL,
  roles: { eos: '<|im_end|>', pad: '<|endoftext|>' },
});

/** A model with such a template, and a vocabulary that holds the tokens of all of them. */
export function modelWith({ source, bos, eos }: NamedTemplate): OpenModel {
  const named = { ...(bos === null ? {} : { bos_token: bos }), eos_token: eos };
  const tokenizer = openTokenizer({ tokenizer: files.tokenizer, config: { ...files.config, ...named } });
  const template = chatTemplate(source, tokenizer);
  const eosIds = [template.turnEnd, tokenizer.eos].filter((id) => id !== null);
  return { tokenizer, template, eosIds, config: { vocab_size: tokenizer.vocabSize } } as unknown as OpenModel;
}

/** A chat message as the log holds it. */
export const recorded = (message: ChatMessage) =>
  mapStrings(JSON.parse(canonicalJson(toMessage(message))), escapeText) as Record<string, unknown>;
const { messages: stored } = NESTED as { messages: { stored: (v: unknown) => unknown; read: (v: unknown) => unknown } };

/** The step of a dataset of a call whose input and answer lie in the log like this. */
export function recordedStep(input: readonly object[], content: unknown, tools?: readonly object[]): StepRow {
  const parts = partsOf(content);
  return {
    ...{ episode_id: 'e', group_id: null, task_id: 't', call_id: 'c', candidate: 0, role: null, advantage: null },
    ...{ prompt_token_ids: null, token_ids: null, logprobs: null, loss_mask: null },
    prompt: stored.read(stored.stored(input)) as StepRow['prompt'],
    text: textOf(content),
    content: parts === null ? null : JSON.stringify(parts),
    tools: tools ? (JSON.parse(canonicalJson(tools)) as unknown[]) : null,
  };
}

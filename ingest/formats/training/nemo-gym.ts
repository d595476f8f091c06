/** Rollouts of NVIDIA NeMo Gym (nemo_gym/rollout_collection.py): what the agent was asked, the response with all of its steps, the reward. */
import { isRecord } from '../../events/json.ts';
import { conversationTrace } from '../kit/message-list.ts';
import { chatOfItems } from '../kit/openai-responses.ts';
import { format, isNumber } from '../kit/reader.ts';
import { isReal, isTokens } from '../kit/rollout-calls.ts';
import { NO_TOKEN_IDS } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'nemo-gym';

export const nemoGym = format({
  name: NAME,
  summary: 'NVIDIA NeMo Gym rollouts {responses_create_params, response, reward}',
  called: 'a rollout object',
  recognises: ({ responses_create_params: asked, response }) =>
    isRecord(asked) && isRecord(response) && Array.isArray(response.output),
  convert(row, record) {
    const asked = row.object('responses_create_params', 'what the agent was asked');
    const response = row.object('response', 'the response object');
    const instructions = asked.text('instructions');
    const input = asked.any('input');
    const items = [
      ...(instructions ? [{ role: 'system', content: instructions }] : []),
      ...(typeof input === 'string' ? [{ role: 'user', content: input }] : Array.isArray(input) ? input : []),
    ];
    const output = response.list('output', 'a list of items');
    const opening = chatOfItems(items);
    const model = response.text('model');
    const completed = model === undefined ? {} : { response_model: model };
    const answers = callsIn(output).flatMap(({ messages, tokens }) => {
      const last = messages.findLast(({ role }) => role === 'assistant');
      return messages.map((message) =>
        message === last
          ? { message, ...tokens, completed: { ...completed, ...tokens.completed } }
          : { message, completed },
      );
    });
    const listed = [...opening.map((message) => ({ message })), ...answers];
    const agent = row.object('agent_ref')?.id('name');
    const tools = asked.any('tools');
    const hasTools = Array.isArray(tools) && tools.length > 0;
    const { trace, task, flags } = conversationTrace(
      NAME,
      record,
      listed,
      {
        field: 'response.output',
        agentOf: () => agent ?? null,
        tools: hasTools ? tools : undefined,
      },
      row.any('instance_id'),
    );
    if (agent) trace.member(agent);
    const reward = row.checked('reward', isNumber, 'bad_number', 'a number or null');
    if (reward !== undefined) trace.judged('reward', 'reward', reward);
    return trace.finish(
      {
        task,
        started: {
          native: { format: NAME, ids: row.these('_ng_task_index', '_ng_rollout_index') },
          attempt: row.whole('_ng_rollout_index'),
          // With an answer the trace knows whether it came with tokens.
          ...(flags.includes(NO_TOKEN_IDS) ? {} : { flags }),
          unmapped: row.rest(),
        },
        finished: {
          outcome: 'unknown',
          unmapped: response.has('usage') ? { usage: usageOf(response.native.usage) } : undefined,
        },
      },
      row.problems,
    );
  },
});

/**
 * The output cut behind each answer of the model, where the last item of an answer holds its tokens: what it was shown, what it sampled and
 * how likely that was (nemo_gym/openai_utils.py, `TokenIDLogProbMixin`). Without tokens it is one piece.
 */
function callsIn(output: readonly unknown[]) {
  const pieces: unknown[][] = [[]];
  for (const item of output) {
    pieces.at(-1)!.push(item);
    if (isRecord(item) && isTokens(item.generation_token_ids)) pieces.push([]);
  }
  return pieces.map((items) => ({ messages: chatOfItems(items), tokens: tokensOf(items.at(-1)) }));
}

function tokensOf(item: unknown) {
  if (!isRecord(item) || !isTokens(item.generation_token_ids)) return {};
  const { prompt_token_ids: prompt, generation_token_ids: ids, generation_log_probs: logprobs } = item;
  const fits = Array.isArray(logprobs) && logprobs.length === ids.length && logprobs.every(isReal);
  const completed = {
    ...(isTokens(prompt) ? { prompt_token_ids: prompt } : {}),
    usage: { ...(isTokens(prompt) ? { input_tokens: prompt.length } : {}), output_tokens: ids.length },
    ...(fits || logprobs == null ? {} : { flags: ['logprobs_mismatch'] }),
  };
  return { sampled: { token_ids: ids, ...(fits ? { logprobs } : {}) }, completed };
}

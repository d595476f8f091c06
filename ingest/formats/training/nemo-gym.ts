/** Rollouts of NVIDIA NeMo Gym (nemo_gym/rollout_collection.py): what the agent was asked, the response with all of its steps, the reward. */
import { isRecord } from '../../events/json.ts';
import { conversationTrace } from '../kit/message-list.ts';
import { chatOfItems } from '../kit/openai-responses.ts';
import { format, isNumber } from '../kit/reader.ts';
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
    const answers = chatOfItems(output);
    const model = response.text('model');
    const listed = [...opening, ...answers].map((message) => ({
      message,
      completed: message.role === 'assistant' && model ? { response_model: model } : {},
    }));
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
          flags,
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

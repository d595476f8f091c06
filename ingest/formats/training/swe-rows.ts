/**
 * Rows of published runs of coding agents: SWE-smith (swesmith/train/traj_mgr/collect_trajs.py), SWE-Gym and nebius. A row has the
 * instance of SWE-bench's form, the messages under one of two names, as a list or as JSON text, and whether the tests passed in the end.
 */
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { fromAnthropic } from '../kit/anthropic-blocks.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { conversationTrace } from '../kit/message-list.ts';
import { emitterFor } from '../kit/native.ts';
import { format, unreadable } from '../kit/reader.ts';
import { patchDraft } from '../kit/run.ts';
import { jsonIn } from '../kit/span-attributes.ts';
import { withCallIds } from './chat-unnamed.ts';

const NAME = 'swe-rows';

export const isSweRow = ({ instance_id: id, messages, trajectory, resolved, target }: JsonObject): boolean => {
  const list = trajectory ?? messages;
  return (
    isIdentifier(id) &&
    (resolved !== undefined || target !== undefined) &&
    (Array.isArray(list)
      ? list.some((one) => isRecord(one) && typeof one.role === 'string')
      : typeof list === 'string' && /^\s*\[\s*\{\s*"/.test(list))
  );
};

export const sweRows = format({
  name: NAME,
  summary:
    'SWE-smith, SWE-Gym and nebius rows {instance_id, messages | trajectory, resolved | target}, with patch and tools where they have them',
  called: 'a row with an instance and messages',
  recognises: isSweRow,
  convert(row, record) {
    const instance = row.ownId('instance_id');
    const field = row.has('trajectory') ? 'trajectory' : 'messages';
    const list = jsonIn(row.any(field));
    if (!Array.isArray(list)) return unreadable('bad_type', field, 'a list of messages', row.native[field]);
    const messages = withCallIds(fromAnthropic(list.map(messageOf))) as ChatMessage[];
    const model = row.id('model') ?? row.id('model_name');
    const completed = model === undefined ? {} : { response_model: model };
    const { trace, task, flags } = conversationTrace(
      NAME,
      record,
      messages.map((message) => ({ message, completed })),
      { field, tools: row.any('tools') },
      instance,
    );
    const passed = row.boolean('resolved') ?? row.boolean('target') ?? row.whole('resolved');
    const solved = passed === undefined ? undefined : Number(passed) === 1;
    if (solved !== undefined) trace.judged('reward', 'resolved', Number(solved));
    const test = row.object('test_result');
    const patch = ['patch', 'model_patch', 'generated_text'].flatMap((name) => row.text(name) || [])[0];
    const made = patch || test?.text('git_patch');
    if (made) trace.events.push(patchDraft(emitterFor(NAME), trace.episodeId, made));
    const stop = row.text('exit_status');
    const run = trace.finish({
      task,
      started: {
        native: { format: NAME, ids: row.these('traj_id', 'trajectory_id', 'run_id') },
        flags,
        unmapped: row.rest(),
      },
      finished: { outcome: solved === undefined ? 'unknown' : solved ? 'success' : 'failure', stop_reason: stop },
    });
    return { ...run, bodies: made ? [made] : [] };
  },
});

/** nebius calls the model `ai`, its words `text` and the instructions `system_prompt`; SWE-agent lists the calls that a result answers. */
function messageOf(native: unknown): unknown {
  if (!isRecord(native)) return native;
  const { text, system_prompt: instructions, tool_call_ids: answered, ...message } = native;
  const said = Object.fromEntries(Object.entries(message).filter(([, value]) => value !== null));
  return {
    ...without(said, 'mask'),
    role: native.role === 'ai' ? 'assistant' : native.role,
    content: native.content ?? text ?? instructions ?? null,
    ...(native.role === 'tool' && native.tool_call_id == null && Array.isArray(answered)
      ? { tool_call_id: answered[0] as unknown }
      : {}),
  };
}

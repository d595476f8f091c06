/**
 * Agent Data Protocol 1.5.0 (neulab/agent-data-protocol at 0dc08752, schema/): a trajectory for each conversation of one agent, as actions and
 * observations. Actions are learnt; an answer that is not is an observation of the agent, as in the protocol's own data, unless it
 * calls tools.
 */
import type { JsonObject } from '../../../ingest/events/json.ts';
import { type Conversation, conversationsOf, countUnlearnt } from './conversations.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { argumentsOf, type Message } from './message.ts';
import { type Chat, chatsOf } from './turn.ts';

export const adp: Layout = {
  name: 'adp',
  about:
    'Agent Data Protocol: a trajectory for each conversation, as actions and observations; every answer that calls a tool is learnt',
  refuses: LEARNS_ALL,
  holds: new Set(['reasoning', 'tool calls', 'ids of tool calls', 'reward', 'ground truth', 'step ids']),
  files: (splits, { name, leftOut, notHeld }) =>
    splits.map(({ split, turns }) => {
      const talks = conversationsOf(chatsOf(turns, leftOut));
      countUnlearnt(talks, notHeld, ({ calls }) => calls.length > 0);
      const rows = talks.flatMap((talk) => {
        const content = contentOf(talk);
        if (typeof content === 'string') leftOut.add(content, talk.learnt.length);
        return typeof content === 'string' ? [] : [trajectoryOf(talk, content, name)];
      });
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    }),
};

function trajectoryOf(
  { messages, last, turns }: Conversation,
  content: readonly JsonObject[],
  dataset: string,
): JsonObject {
  const { episode_id, task_id, group_id, agent, role, ground_truth } = last;
  const system = messages.flatMap((message) => (message.role === 'system' ? [message.text ?? ''] : []));
  const details = { dataset, episode_id, task_id, group_id, agent, role, ground_truth };
  return {
    schema_version: '1.5.0',
    id: `${episode_id}/${turns[0]!.step_id ?? 'answer'}`,
    content,
    details: { ...details, system, step_ids: turns.map(({ step_id }) => step_id) },
  };
}

/** The actions and observations, or why the protocol has no place for them: only the last calls of a trajectory may be without results. */
function contentOf({ messages, learnt, turns }: Conversation): readonly JsonObject[] | string {
  const items: JsonObject[] = [];
  const used = new Set<string>();
  let open: { readonly native: string | null; readonly place: number; readonly id: string }[] = [];
  for (const [place, message] of messages.entries()) {
    if (message.role === 'system') continue;
    if (message.role !== 'tool' && open.length > 0) return 'a call of a tool has no result before the next message';
    if (message.role === 'tool') {
      const asked = open.find(({ native }) => native === message.callId) ?? null;
      if (asked === null) return 'a result of a tool answers no call before it';
      open = open.filter((one) => one !== asked);
      items[asked.place] = { ...items[asked.place], tool_call_id: asked.id };
      items.push({ ...observation('environment', message), tool_call_id: asked.id });
    } else if (message.role === 'user') items.push(observation('user', message));
    else if (message.calls.length === 0 && !learnt.includes(place)) items.push(observation('agent', message));
    else {
      if (message.calls.some((call) => argumentsOf(call) === null)) return 'the arguments of a call are no JSON object';
      const actions = actionsOf(message, turns[learnt.indexOf(place)] ?? null);
      const at = items.length;
      open = message.calls.map(({ id: native }, i) => {
        const id = native !== null && !used.has(native) ? native : `${native ?? 'call'}/${at + i}`;
        used.add(id);
        return { native, place: at + i, id };
      });
      items.push(...actions);
    }
  }
  const unanswered = open.some(({ place }) => items[place + 1]?.class_ === 'text_observation');
  return unanswered ? 'a call of a tool has no result, and one beside it has' : items;
}

const observation = (source: 'user' | 'agent' | 'environment', { text }: Message): JsonObject => ({
  class_: 'text_observation',
  content: text ?? '',
  source,
});

/** The text beside calls describes the first of them. */
function actionsOf({ text, reasoning, calls }: Message, turn: Chat | null): readonly JsonObject[] {
  const first = {
    ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    ...(turn?.reward == null ? {} : { reward: turn.reward }),
  };
  if (calls.length === 0) return [{ class_: 'message_action', content: text ?? '', ...first }];
  return calls.map((call, i) => ({
    class_: 'api_action',
    function: call.name,
    kwargs: argumentsOf(call),
    ...(i > 0 ? {} : { ...(text ? { description: text } : {}), ...first }),
  }));
}

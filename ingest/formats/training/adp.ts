/**
 * Trajectories of the Agent Data Protocol (neulab/agent-data-protocol, schema/trajectory.py at 0dc08752, action/ and observation/ of
 * versions 1.0 to 1.5): {id, content: actions and observations, details}. It has no mark of where an answer of the model ends: actions
 * without an observation between them are one, up to the next that is described.
 */
import { asText, canonicalJson, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'adp';
const AGENT = 'agent';

const isItem = (item: unknown): item is JsonObject & { readonly class_: string } =>
  isRecord(item) && typeof item.class_ === 'string' && /_(?:action|observation)$/.test(item.class_);

const isTrajectory = (record: unknown): record is JsonObject & { readonly content: readonly unknown[] } =>
  isRecord(record) && 'id' in record && Array.isArray(record.content) && record.content.some(isItem);

export const adp: Format = {
  name: NAME,
  summary: 'Agent Data Protocol trajectories: {id, content: [{class_: "api_action" …}], details}',
  recognises: ({ records }) => records.some(isTrajectory),
  convert,
};

function convert(record: NativeRecord): Conversion {
  const { value } = record;
  if (!isTrajectory(value))
    return refused(refusal('bad_shape', 'content', 'a trajectory {id, content} of actions and observations', value));
  const details = isRecord(value.details) ? value.details : {};
  const refusals: NativeRefusal[] = [];
  const { messages, quoted, rewards } = conversationOf(value.content, refusals);
  const isAnswer = (message: ChatMessage): boolean => message.role === 'assistant' && !quoted.has(message);
  const isOurs = isIdentifier(details.episode_id) && Array.isArray(details.step_ids);
  const trace = Trace.revised(NAME, record, isOurs ? asText(details.episode_id) : undefined);
  const agentId = isIdentifier(details.agent) ? details.agent : AGENT;
  const system = (Array.isArray(details.system) ? details.system : [])
    .filter((text) => typeof text === 'string')
    .map((content): ChatMessage => ({ role: 'system', content }));
  const whole = [...system, ...messages];
  const callIds = idsOf(isOurs ? details.step_ids : null, messages.map(isAnswer), asText(value.id));
  let turn = 0;
  for (const [i, message] of messages.entries()) {
    const callId = callIds[i]!;
    if (message.role === 'tool') continue;
    if (!isAnswer(message)) {
      const { role, content, name } = message;
      const from = isIdentifier(name) ? name : role === 'assistant' ? agentId : role;
      const said = content as string | undefined;
      trace.add('message.sent', [callId], { seq: i, message_id: callId, from, role, content: said });
      continue;
    }
    trace.rollout({ callId, agentId, turn: turn++, input: whole.slice(0, system.length + i), answer: message });
    for (const [n, value] of (rewards.get(i) ?? []).entries())
      trace.feedback(['reward', `${callId}/0`, n], {
        target: { kind: 'step', id: `${callId}/0`, episode_id: trace.episodeId },
        ...{ kind: 'reward', name: 'reward', value, by: 'env' },
      });
  }
  trace.lastResults({ callId: callIds.at(-1) ?? 'end', agentId, turn }, whole);
  const tools = value.available_custom_tools ?? value.available_apis;
  const truth = { ground_truth: details.ground_truth ?? undefined };
  const run = trace.finish(
    {
      task: taskOf(NAME, askedIn(messages), truth, [details.task_id, details.instance_id].find(isIdentifier)),
      started: {
        native: { format: NAME, ids: { id: value.id } },
        group_id: isIdentifier(details.group_id) ? details.group_id : undefined,
        unmapped: without(details, ...READ),
      },
      agents: [
        {
          agent_id: agentId,
          role: isIdentifier(details.role) ? details.role : undefined,
          tools: Array.isArray(tools) ? tools : undefined,
        },
      ],
    },
    refusals,
  );
  return { ...run, repeated: isOurs && record.ordinal > 0 };
}

const READ = ['episode_id', 'task_id', 'group_id', 'agent', 'role', 'ground_truth', 'system', 'step_ids'];

/** An id for each message: of the answers of an export those of its steps, where each answer was a row. */
function idsOf(stepIds: unknown, isAnswer: readonly boolean[], id: string): string[] {
  const answers = isAnswer.filter(Boolean).length;
  const steps = (Array.isArray(stepIds) ? stepIds : []).filter((one) => isIdentifier(one) && /\/0$/.test(one));
  let next = 0;
  return isAnswer.map((answer, i) =>
    answer && steps.length === answers
      ? asText(steps[next++]).replace(/\/0$/, '')
      : `${hashId(NAME, id).slice(0, 12)}/${i}`,
  );
}

/** The text of the user's messages before the agent used a tool (data sets often split the task in two messages); without a tool the first text. */
function askedIn(messages: readonly ChatMessage[]): string | undefined {
  const acts = messages.findIndex(({ tool_calls: calls }) => calls !== undefined);
  const texts = messages
    .slice(0, acts < 0 ? undefined : acts)
    .flatMap(({ role, content }) => (role === 'user' && typeof content === 'string' ? [content] : []));
  return acts < 0 ? texts[0] : texts.join('\n\n');
}

/** The messages and rewards in actions and observations. An item that is neither is refused with its index. */
function conversationOf(content: readonly unknown[], refusals: NativeRefusal[]) {
  const messages: ChatMessage[] = [];
  /** Words of the agent that are an observation: shown to the model, and no answer of it. */
  const quoted = new Set<ChatMessage>();
  const rewards = new Map<number, number[]>();
  /** Calls without a result, oldest first: results need no id where they follow their action. */
  let open: string[] = [];
  /** True while the next action may belong to the answer before it. */
  let joins = false;
  const earn = (reward: unknown): void => {
    const at = messages.findLastIndex((message) => message.role === 'assistant' && !quoted.has(message));
    if (typeof reward === 'number' && at >= 0) rewards.set(at, [...(rewards.get(at) ?? []), reward]);
  };
  for (const [i, item] of content.entries()) {
    const bad = badItem(item, `content[${i}]`);
    if (bad) {
      refusals.push(bad);
      continue;
    }
    const { class_: kind, tool_call_id: id, reward } = item as JsonObject & { readonly class_: string };
    if (kind === 'message_action') {
      messages.push(answerOf(item as JsonObject, []));
      open = [];
      joins = false;
    } else if (kind.endsWith('_action')) {
      const call = callOf(item as JsonObject, i);
      open.push(call.id);
      const before = messages.at(-1);
      if (joins && before && !isDescribed(item as JsonObject))
        messages[messages.length - 1] = { ...before, tool_calls: [...(before.tool_calls as unknown[]), call] };
      else messages.push(answerOf(item as JsonObject, [call]));
      joins = true;
    } else {
      const answered = isIdentifier(id) ? id : open[0];
      const known = answered !== undefined && hasCall(messages, answered);
      if (answered !== undefined && !known)
        refusals.push(refusal('bad_reference', `content[${i}].tool_call_id`, 'the id of an action before it', id));
      open = open.filter((one) => one !== answered);
      const message = known ? resultOf(item as JsonObject, answered) : saidOf(item as JsonObject);
      if (message.role === 'assistant') quoted.add(message);
      messages.push(message);
      joins = false;
    }
    earn(reward);
  }
  return { messages, quoted, rewards };
}

function badItem(item: unknown, field: string): NativeRefusal | null {
  if (!isItem(item))
    return refusal('bad_shape', field, 'an item with a class_ that ends in _action or _observation', item);
  if (item.class_ === 'api_action' && !isIdentifier(item.function))
    return refusal('bad_type', `${field}.function`, 'the name of a function', item.function);
  if (item.class_ === 'code_action' && typeof item.content !== 'string')
    return refusal('bad_type', `${field}.content`, 'code as text', item.content);
  if (item.class_ === 'message_action' && typeof item.content !== 'string')
    return refusal('bad_type', `${field}.content`, 'a text', item.content);
  return null;
}

const isDescribed = ({ description, reasoning_content: thought }: JsonObject): boolean => !!description || !!thought;

const hasCall = (messages: readonly ChatMessage[], id: string): boolean =>
  messages.some(
    ({ tool_calls: calls }) => Array.isArray(calls) && calls.some((call) => isRecord(call) && call.id === id),
  );

/** Code is a call of the tool that is called as its language. */
function callOf({ class_: kind, tool_call_id: id, ...item }: JsonObject, place: number) {
  const code = kind === 'code_action' || !isIdentifier(item.function);
  const name = code ? item.language : item.function;
  const asked = code ? { code: item.content ?? null } : (item.kwargs ?? {});
  return {
    id: isIdentifier(id) ? id : `action/${place}`,
    type: code ? 'code' : 'function',
    function: { name: isIdentifier(name) ? name : 'code', arguments: writtenArguments(asked) },
  };
}

function answerOf(
  { class_: kind, content, description, reasoning_content: thought }: JsonObject,
  calls: unknown[],
): ChatMessage {
  const [first = '', ...more] = [description, ...(kind === 'message_action' ? [content] : [])].flatMap((part) =>
    part == null || part === '' ? [] : [typeof part === 'string' ? part : canonicalJson(part)],
  );
  return {
    role: 'assistant',
    content: more.length > 0 ? [first, ...more].map((text) => ({ type: 'text', text })) : first,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(typeof thought === 'string' ? { reasoning_content: thought } : {}),
  };
}

const resultOf = (item: JsonObject, id: string): ChatMessage => ({
  role: 'tool',
  tool_call_id: id,
  content: shownIn(item),
});

function saidOf(item: JsonObject): ChatMessage {
  const { source, name } = item;
  const role = source === 'agent' || source === 'assistant' ? 'assistant' : source === 'system' ? 'system' : null;
  const by = role ?? (source === 'user' || source === 'user_msg' ? 'user' : 'environment');
  return { role: by, content: shownIn(item), ...(isIdentifier(name) ? { name } : {}) };
}

/** Texts as they are; an image is the place where it lies, a page its accessibility tree or else its source. */
function shownIn(native: JsonObject): unknown {
  const { class_: kind, ...item } = without(native, 'tool_call_id', 'source', 'name', 'reward') ?? {};
  if (kind === 'text_observation' && typeof item.content === 'string') return item.content;
  if (kind === 'image_observation')
    return [{ type: 'uri', modality: 'image', uri: item.content ?? null, ...without(item, 'content') }];
  const { axtree, ...page } = item;
  const text = typeof axtree === 'string' ? axtree : null;
  return [...(text === null ? [] : [{ type: 'text', text }]), { ...page, type: asText(kind) }];
}

/** Any episode as a new ATIF document: its conversation, its calls with their tools, its reward. */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { fromMessage, textIn } from '../kit/chat-message.ts';
import type { RestoredEvent } from '../kit/format.ts';
import { startOf } from '../kit/native.ts';

const VERSION = 'ATIF-v1.8';

/** One document for the episode; none where no member of the team produced output. */
export function writeEpisode(episode: readonly RestoredEvent[]): readonly unknown[] {
  const events = episode.toSorted(order);
  const generations = events.filter(({ name }) => name === 'generation.completed');
  if (generations.length === 0) return [];
  const start = startOf(events);
  const session = asText(generations[0]!.data.episode_id);
  const agents = [...new Set(generations.map(({ data }) => agentOf(data)))];
  const frame = (name: string, id: string) => ({
    schema_version: VERSION,
    session_id: session,
    trajectory_id: id,
    agent: agentFields(name, events),
  });
  const opening = openingSteps(events);
  const [only] = agents;
  const steps =
    agents.length === 1
      ? [...opening, ...agentSteps(only!, events)]
      : [...opening, ...agents.map((name, i) => delegation(name, `${session}/${i + 1}`, i, session))];
  const children =
    agents.length === 1
      ? []
      : agents.map((name, i) => ({
          ...frame(name, `${session}/${i + 1}`),
          steps: numbered([...opening, ...agentSteps(name, events)]),
        }));
  return [
    {
      ...frame(agents.length === 1 ? only! : asText(start.team_id ?? 'team'), session),
      steps: numbered(steps),
      ...finalMetrics(events),
      ...given('extra', without({ task_id: start.task_id ?? undefined })),
      ...(children.length > 0 ? { subagent_trajectories: children } : {}),
    },
  ];
}

function order(a: RestoredEvent, b: RestoredEvent): number {
  const [one, other] = [a.data.seq, b.data.seq].map((seq) => (typeof seq === 'number' ? seq : null));
  if (typeof one === 'number' && typeof other === 'number' && one !== other) return one - other;
  if (a.time !== b.time) return (a.time ?? '') < (b.time ?? '') ? -1 : 1;
  return 0;
}

const agentOf = (data: JsonObject): string => (typeof data.agent_id === 'string' ? data.agent_id : 'agent');

function agentFields(name: string, events: readonly RestoredEvent[]): JsonObject {
  const known = events.findLast((event) => event.name === 'agent.defined' && event.data.agent_id === name)?.data ?? {};
  return {
    name,
    version: 'unknown',
    ...given('model_name', typeof known.model === 'string' ? known.model : undefined),
    ...given('tool_definitions', Array.isArray(known.tools) ? known.tools : undefined),
  };
}

const stamp = ({ time }: RestoredEvent): JsonObject => (time === null ? {} : { timestamp: time });

/** Messages to the team, before and between its calls. */
const openingSteps = (events: readonly RestoredEvent[]): JsonObject[] =>
  events.flatMap((event) => {
    const { data, name } = event;
    const source = data.role === 'user' || data.role === 'system' ? data.role : null;
    if (name !== 'message.sent' || source === null) return [];
    return [{ ...stamp(event), source, ...messageOf(fromMessage({ content: data.content ?? '' }).content) }];
  });

function agentSteps(agent: string, events: readonly RestoredEvent[]): JsonObject[] {
  return events
    .filter((event) => event.name === 'generation.completed' && agentOf(event.data) === agent)
    .map((event) => {
      const { data } = event;
      const choices = data.choices as JsonObject[];
      const choice = choices.find((one) => one.chosen === true) ?? choices[0] ?? {};
      const { content, reasoning_content: thought } = fromMessage({ role: 'assistant', content: choice.content ?? '' });
      const tools = events.filter(({ name, data: call }) => name === 'tool.called' && call.call_id === data.call_id);
      const results = events.filter(
        ({ name, data: message }) =>
          name === 'tool.returned' && tools.some(({ data: call }) => call.tool_call_id === message.tool_call_id),
      );
      return {
        ...stamp(event),
        source: 'agent',
        ...messageOf(content),
        ...given('reasoning_content', typeof thought === 'string' ? thought : undefined),
        ...given('model_name', typeof data.response_model === 'string' ? data.response_model : undefined),
        ...(tools.length > 0 ? { tool_calls: tools.map(({ data: call }) => toolCall(call)) } : {}),
        ...(results.length > 0
          ? { observation: { results: results.map(({ data: returned }) => result(returned)) } }
          : {}),
        ...given('metrics', metricsOf(data, choice)),
      };
    });
}

/** Parts that the format does not know stand in `extra`, beside their text. */
function messageOf(content: unknown): JsonObject {
  if (!Array.isArray(content)) return { message: typeof content === 'string' ? content : '' };
  return content.every(isPart) ? { message: content } : { message: textIn(content) ?? '', extra: { content } };
}

const isPart = (part: unknown): boolean =>
  isRecord(part) &&
  Object.keys(part).length === 2 &&
  (part.type === 'text'
    ? typeof part.text === 'string'
    : (part.type === 'image' || part.type === 'audio') && isRecord(part.source));

const toolCall = (call: JsonObject): JsonObject => ({
  tool_call_id: call.tool_call_id,
  function_name: call.name,
  arguments: isRecord(call.arguments) ? call.arguments : {},
  ...(isRecord(call.arguments) ? {} : { extra: { arguments: call.arguments_raw ?? call.arguments ?? null } }),
});

const result = (returned: JsonObject): JsonObject => ({
  source_call_id: returned.tool_call_id,
  content:
    typeof returned.output === 'string' ? returned.output : JSON.stringify(returned.output ?? returned.error ?? null),
});

function metricsOf(data: JsonObject, choice: JsonObject): JsonObject | undefined {
  const usage = isRecord(data.usage) ? data.usage : {};
  return without({
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    cached_tokens: usage.cached_input_tokens,
    cost_usd: usage.cost_usd,
    prompt_token_ids: data.prompt_token_ids ?? undefined,
    completion_token_ids: choice.token_ids ?? undefined,
    logprobs: choice.logprobs ?? undefined,
  });
}

/** A step in code, no model was called: the format's way from one agent to another. */
const delegation = (name: string, id: string, place: number, session: string): JsonObject => ({
  source: 'agent',
  message: '',
  llm_call_count: 0,
  tool_calls: [{ tool_call_id: `delegate_${place + 1}`, function_name: 'delegate', arguments: { to: name } }],
  observation: {
    results: [
      {
        source_call_id: `delegate_${place + 1}`,
        subagent_trajectory_ref: [{ trajectory_id: id, session_id: session }],
      },
    ],
  },
});

const numbered = (steps: readonly JsonObject[]): JsonObject[] => steps.map((step, i) => ({ step_id: i + 1, ...step }));

/** The last reward of the episode. */
function finalMetrics(events: readonly RestoredEvent[]): JsonObject {
  const reward = events.findLast(
    ({ name, data }) =>
      name === 'feedback.recorded' && data.name === 'reward' && isRecord(data.target) && data.target.kind === 'episode',
  )?.data.value;
  return reward === undefined || reward === null ? {} : { final_metrics: { extra: { reward } } };
}

/**
 * Traces of Meta Agents Research Environments, GAIA2 among them (meta-agents-research-environments 1.2.0, simulation/data_handler/
 * exporter.py, models.py; agents/agent_log.py): the trace of a run {version, metadata, completed_events, world_logs}, of which benchmark
 * runs leave the logs of the agents out, and the lite form {scenario_id, per_agent_interaction_histories, per_agent_llm_usage_stats}.
 * Times are those of the simulated world.
 */
import type { Message } from '../../events/events.ts';
import { asText, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { emitterFor, refusal, refused } from '../kit/native.ts';
import { isWhole } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { jsonIn } from '../kit/span-attributes.ts';
import { Trace } from '../kit/trace.ts';
import { type AgentLogs, addAgentLogs, messagesIn } from './are-logs.ts';

const NAME = 'are';
const emit = emitterFor(NAME);

const isTrace = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  isRecord(record.metadata) &&
  isRecord(record.metadata.definition) &&
  'scenario_id' in record.metadata.definition &&
  ('completed_events' in record || 'world_logs' in record || 'events' in record);

const isLite = (record: unknown): record is JsonObject =>
  isRecord(record) && 'scenario_id' in record && isRecord(record.per_agent_interaction_histories);

export const are: Format = {
  name: NAME,
  summary:
    'traces of Meta Agents Research Environments and GAIA2: {version, metadata, completed_events, world_logs}; lite form',
  recognises: ({ records }) => records.some((record) => isTrace(record) || isLite(record)),
  convert,
};

/** What is known of the agents and of the task besides the events. */
type AgentFacts = Pick<AgentLogs, 'agents' | 'answer' | 'asked'>;

function convert(record: NativeRecord): Conversion {
  const { value } = record;
  const trace = Trace.of(NAME, record);
  if (isLite(value)) return runOf(trace, value, addHistories(trace, value));
  if (!isTrace(value)) {
    const expected = 'a trace {metadata.definition.scenario_id, completed_events, …} or its lite form';
    return refused(refusal('bad_shape', '', expected, value));
  }
  const { definition, simulation, annotation } = value.metadata as Record<string, JsonObject>;
  const about: JsonObject = {
    ...(isRecord(simulation) && { main_agent_type: simulation.agent_id, model_id: simulation.model_id }),
    ...(isRecord(annotation) && {
      validation_decision: annotation.validation_decision,
      validation_rationale: annotation.comment,
    }),
    ...definition,
  };
  const events = list(value.completed_events);
  const logs = list(value.world_logs);
  if (events.length + logs.length === 0) return scenario(record, about, list(value.events));
  const refusals: NativeRefusal[] = [];
  const main = isIdentifier(about.main_agent_type) ? about.main_agent_type : 'agent';
  const mapped = addAgentLogs(trace, logs, (agent, place) => (place === 0 ? main : agent), refusals);
  const logged = trace.events.some(({ name }) => name === 'generation.completed');
  if (!logged) addEvents(trace, events, main, refusals);
  const known = {
    ...mapped,
    agents: logged ? mapped.agents : new Map([[main, {}]]),
    asked: firstUserMessage(events) ?? unframed(mapped.asked),
  };
  return runOf(trace, about, known, list(value.events), refusals, !logged);
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function taskIn(about: JsonObject, asked: unknown, events: readonly unknown[]): ReturnType<typeof taskOf> {
  const oracle = events.filter((event) => isRecord(event) && event.class_name === 'OracleEvent');
  const id = isIdentifier(about.scenario_id) ? `${NAME}/${about.scenario_id}` : undefined;
  const tags = list(about.tags).length > 0 ? { tags: about.tags } : undefined;
  return taskOf(NAME, asked, { reference: oracle.length > 0 ? oracle : undefined, tags }, id);
}

/** A scenario that nobody has run, such as a row of a dataset. */
function scenario(record: NativeRecord, about: JsonObject, events: readonly unknown[]): Conversion {
  const task = taskIn(about, firstUserMessage(events), events);
  if (!task)
    return refused(
      refusal('bad_identifier', 'metadata.definition.scenario_id', 'the id of a scenario', about.scenario_id),
    );
  return { drafts: [emit.state('task.defined', task)], refusals: [], raw: record.canonical };
}

function runOf(
  trace: Trace,
  about: JsonObject,
  { agents, answer, asked }: AgentFacts,
  oracle: readonly unknown[] = [],
  refusals: readonly NativeRefusal[] = [],
  /** Whether the calls of the model are not in the file. */
  incomplete = false,
): Conversion {
  const { validation_decision: decision, validation_rationale: why, run_number: attempt } = about;
  const failed = about.has_exception === true;
  const reward = failed ? null : decision === 'Valid' ? 1 : decision === 'Invalid' ? 0 : null;
  const team = [about.main_agent_type ?? null, about.model_id ?? null];
  if (reward !== null) {
    const explanation = typeof why === 'string' ? why : undefined;
    trace.feedback(['validation'], { kind: 'reward', name: 'validation', value: reward, by: 'env', explanation });
  }
  const { exception_type, exception_message, run_duration: seconds } = about;
  return trace.finish(
    {
      task: taskIn(about, asked, oracle),
      incomplete,
      started: {
        group_id: isIdentifier(about.scenario_id) ? hashId(NAME, about.scenario_id, ...team) : undefined,
        attempt: isWhole(attempt) && attempt >= 0 ? attempt : undefined,
        tags: without({ seed: about.seed ?? undefined, start_time: about.start_time ?? undefined }),
      },
      agents: [...agents].map(([agent, { system, parent, name = agent }]) => ({
        agent_id: agent,
        system_instructions: system,
        parent_agent_id: parent,
        name,
        model: typeof about.model_id === 'string' ? about.model_id : undefined,
      })),
      finished: {
        outcome: failed ? 'error' : reward === null ? 'unknown' : reward === 1 ? 'success' : 'failure',
        answer,
        unmapped: failed ? (without({ exception_type, exception_message }) ?? {}) : undefined,
        totals: typeof seconds === 'number' ? { duration_s: seconds } : undefined,
      },
    },
    refusals,
  );
}

const ofUser = (action: JsonObject): boolean =>
  action.app === 'AgentUserInterface' && action.function === 'send_message_to_agent';

/** The user's first message, in the order of the events. */
function firstUserMessage(events: readonly unknown[]): string | undefined {
  for (const event of events) {
    if (!isRecord(event) || !isRecord(event.action) || !ofUser(event.action)) continue;
    const { content } = argumentsOf(event.action);
    if (typeof content === 'string') return content;
  }
  return undefined;
}

/** What happened in the world, where the logs of the agents are not in the file: actions of the agent are calls of tools. */
function addEvents(trace: Trace, events: readonly unknown[], agent: string, refusals: NativeRefusal[]): void {
  for (const [seq, event] of events.entries()) {
    if (!isRecord(event) || !isRecord(event.action)) {
      refusals.push(refusal('bad_shape', `completed_events[${seq}].action`, 'an action {app, function, args}', event));
      continue;
    }
    const { action, metadata: result, event_type: type } = event;
    const id = isIdentifier(event.event_id) ? event.event_id : `event/${seq}`;
    const { exception, return_value: output } = isRecord(result) ? result : {};
    const name = [action.app, action.function].filter((part) => typeof part === 'string').join('__');
    const asked = argumentsOf(action);
    if (type === 'AGENT') {
      trace.add('tool.called', [id], {
        seq,
        agent_id: agent,
        tool_call_id: id,
        name: isIdentifier(name) ? name : 'unknown',
        arguments: asked,
        type: 'function',
      });
      trace.add('tool.returned', [id], {
        seq,
        tool_call_id: id,
        status: exception == null ? 'ok' : 'error',
        output: output ?? undefined,
        error: exception ?? undefined,
      });
    } else if (ofUser(action) && typeof asked.content === 'string') {
      const content = asked.content;
      trace.add('message.sent', [id], { seq, message_id: id, from: 'user', role: 'user', content });
    } else {
      const content = { type, name, arguments: asked, ...given('exception', exception ?? undefined) };
      trace.add('environment.observed', [id], { seq, kind: 'event', content });
    }
  }
}

/** Arguments are texts with the type that they had. */
function argumentsOf({ args }: JsonObject): Record<string, unknown> {
  return Object.fromEntries(
    list(args).flatMap((arg): [string, unknown][] => {
      if (!isRecord(arg) || !isIdentifier(arg.name)) return [];
      const { value, value_type: type } = arg;
      const read = type === 'str' || typeof value !== 'string' ? value : READ.get(asText(type))?.(value);
      return [[arg.name, read ?? value ?? null]];
    }),
  );
}

// A Map, since a type may be called `constructor`.
const READ: ReadonlyMap<string, (text: string) => unknown> = new Map(
  Object.entries({
    list: jsonIn,
    dict: jsonIn,
    int: jsonIn,
    float: jsonIn,
    bool: (text) => (text === 'True' ? true : text === 'False' ? false : undefined),
  }),
);

/** The lite form: a history for each agent, in which actions and what came of them stand as texts, and the usage of its answers. */
function addHistories(trace: Trace, value: JsonObject): AgentFacts {
  const histories = Object.entries(value.per_agent_interaction_histories as JsonObject);
  const usages = isRecord(value.per_agent_llm_usage_stats) ? value.per_agent_llm_usage_stats : {};
  const main = isIdentifier(value.main_agent_type) ? value.main_agent_type : 'agent';
  const agents = new Map<string, { system?: string }>();
  let asked: string | undefined;
  let seq = 0;
  for (const [place, [native, history]] of histories.filter(([name]) => isIdentifier(name)).entries()) {
    const agent = place === 0 ? main : native;
    const entries = list(history).filter(isRecord);
    const messages = messagesIn(entries);
    const [first] = messages;
    agents.set(agent, first?.role === 'system' && typeof first.content === 'string' ? { system: first.content } : {});
    if (agent === main) asked ??= firstText(messages, entries);
    addHistory(trace, { agent, native, entries, messages, usage: usages[native], first: seq });
    seq += messages.length;
  }
  return { agents, answer: undefined, asked };
}

const isResult = (entry: JsonObject): boolean => entry.role === 'tool-response';

const firstText = (messages: readonly Message[], entries: readonly JsonObject[]): string | undefined => {
  const first = messages.find(({ role }, i) => role === 'user' && !isResult(entries[i]!));
  return unframed(typeof first?.content === 'string' ? first.content : undefined);
};

type History = {
  readonly agent: string;
  readonly native: string;
  readonly entries: readonly JsonObject[];
  readonly messages: readonly Message[];
  readonly usage: unknown;
  /** Number of messages before it. */
  readonly first: number;
};

function addHistory(trace: Trace, { agent, native, entries, messages, usage, first }: History): void {
  const answers = messages.filter(({ role }) => role === 'assistant').length;
  const counts = isRecord(usage) ? usage : {};
  const billed = list(counts.prompt_tokens).length === answers ? counts : {};
  let turn = 0;
  let open: string | null = null;
  for (const [i, message] of messages.entries()) {
    const seq = first + i + 1;
    const id = `${hashId(NAME, native).slice(0, 12)}/${i}`;
    const content = message.content ?? undefined;
    const text = typeof content === 'string' ? content : undefined;
    if (message.role === 'system') continue;
    if (isResult(entries[i]!) && open !== null) {
      const status = /^\[OUTPUT OF STEP \d+\] ERROR:/.test(text ?? '') ? 'error' : 'ok';
      trace.add('tool.returned', [open], { seq, tool_call_id: open, status, output: content });
      open = null;
    } else if (message.role !== 'assistant') {
      trace.add('message.sent', [id], { seq, message_id: id, from: 'user', ...message });
    } else {
      const [input, output] = [list(billed.prompt_tokens)[turn], list(billed.completion_tokens)[turn]];
      const call = { seq, call_id: id, agent_id: agent, turn: turn++ };
      const action = actionIn(text);
      open = action ? id : null;
      trace.add('generation.requested', [id], { ...call, input: messages.slice(0, i) });
      trace.add('generation.completed', [id], {
        ...call,
        choices: [{ index: 0, content }],
        usage: input || output ? { input_tokens: input, output_tokens: output } : undefined,
      });
      if (action) trace.add('tool.called', [id], { ...call, tool_call_id: id, ...action, type: 'function' });
    }
  }
}

/** The action that an answer ends with, `{"action": …, "action_input": …}`; null where it cannot be read. */
function actionIn(text: string | undefined): { readonly name: string; readonly arguments: unknown } | null {
  const whole = (text ?? '')
    .trimEnd()
    .replace(/<end_action>$/, '')
    .trimEnd();
  const written = whole.endsWith('}') ? /Action:\s*(\{[\s\S]*)/.exec(whole)?.[1] : undefined;
  const action = written === undefined ? undefined : jsonIn(written);
  return isRecord(action) && isIdentifier(action.action)
    ? { name: action.action, arguments: action.action_input ?? {} }
    : null;
}

/** A message of the user as it was sent, out of the notification in which the agent is shown it. */
function unframed(text: string | undefined): string | undefined {
  const [, ...rest] = (text ?? '').split('\nMessage: ');
  const framed = rest.join('\nMessage: ').split('\nAlready read: ', 2);
  return framed.length === 2 ? framed[0] : text?.replace(/^\[TASK\]:\s*/, '').trim();
}

/**
 * Traces of Meta Agents Research Environments, GAIA2 among them (meta-agents-research-environments 1.2.0, simulation/data_handler/
 * exporter.py, models.py; agents/agent_log.py): the trace of a run {version, metadata, completed_events, world_logs}, of which benchmark
 * runs leave the logs of the agents out, and the lite form {scenario_id, per_agent_interaction_histories, per_agent_llm_usage_stats}.
 * Times are those of the simulated world.
 */
import type { Draft } from '../../events/events.ts';
import { asText, given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Converted, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import type { Fields } from '../kit/rollout-calls.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';
import { jsonIn } from '../kit/span-attributes.ts';
import { type AgentLogs, agentLogs, messagesIn } from './are-logs.ts';

const NAME = 'are';
const emit = emitterFor(NAME);

const isTrace = (record: unknown): record is Fields =>
  isRecord(record) &&
  isRecord(record.metadata) &&
  isRecord(record.metadata.definition) &&
  'scenario_id' in record.metadata.definition &&
  ('completed_events' in record || 'world_logs' in record || 'events' in record);

const isLite = (record: unknown): record is Fields =>
  isRecord(record) && 'scenario_id' in record && isRecord(record.per_agent_interaction_histories);

export const are: Format = {
  name: NAME,
  summary:
    'traces of Meta Agents Research Environments and GAIA2: {version, metadata, completed_events, world_logs}; lite form',
  recognises: ({ records }) => records.some((record) => isTrace(record) || isLite(record)),
  convert,
  restates: new Set(['task.defined']),
};

type EpisodeLogs = Pick<AgentLogs, 'drafts' | 'agents' | 'answer' | 'asked'>;

function convert(record: NativeRecord): Converted {
  const { value } = record;
  if (isLite(value)) return runOf(record, value, lite(recordId(NAME, record), value));
  if (!isTrace(value))
    return refused(
      refusal(
        'bad_shape',
        '',
        'a trace {metadata.definition.scenario_id, completed_events, …} or its lite form',
        value,
      ),
    );
  const { definition, simulation, annotation } = value.metadata as Record<string, Fields>;
  const about: Fields = {
    ...(isRecord(simulation) ? { main_agent_type: simulation.agent_id, model_id: simulation.model_id } : {}),
    ...(isRecord(annotation)
      ? { validation_decision: annotation.validation_decision, validation_rationale: annotation.comment }
      : {}),
    ...definition,
  };
  const events = list(value.completed_events);
  const logs = list(value.world_logs);
  if (events.length + logs.length === 0) return scenario(record, about, list(value.events));
  const episodeId = recordId(NAME, record);
  const refusals: NativeRefusal[] = [];
  const main = isIdentifier(about.main_agent_type) ? about.main_agent_type : 'agent';
  const mapped = agentLogs(emit, episodeId, logs, (agent, place) => (place === 0 ? main : agent), refusals);
  const logged = mapped.drafts.some(({ name }) => name === 'generation.completed');
  const done = logged ? [] : eventDrafts(episodeId, events, main, refusals);
  return runOf(
    record,
    about,
    {
      ...mapped,
      drafts: [...mapped.drafts, ...done],
      agents: logged ? mapped.agents : new Map([[main, {}]]),
      asked: firstUserMessage(events) ?? unframed(mapped.asked),
    },
    { oracle: list(value.events), refusals, incomplete: !logged },
  );
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

type More = {
  readonly oracle?: readonly unknown[];
  readonly refusals?: readonly NativeRefusal[];
  /** True where the calls of the model are not in the file. */
  readonly incomplete?: boolean;
};

function taskIn(about: Fields, asked: unknown, events: readonly unknown[]): ReturnType<typeof taskOf> {
  const oracle = events.filter((event) => isRecord(event) && event.class_name === 'OracleEvent');
  const id = isIdentifier(about.scenario_id) ? `${NAME}/${about.scenario_id}` : undefined;
  const tags = list(about.tags).length > 0 ? { tags: about.tags } : undefined;
  return taskOf(NAME, asked, { ...(oracle.length > 0 ? { reference: oracle } : {}), ...given('tags', tags) }, id);
}

/** A scenario that nobody has run, such as a row of a dataset. */
function scenario(record: NativeRecord, about: Fields, events: readonly unknown[]): Converted {
  const task = taskIn(about, firstUserMessage(events), events);
  if (!task)
    return refused(
      refusal('bad_identifier', 'metadata.definition.scenario_id', 'the id of a scenario', about.scenario_id),
    );
  return { drafts: [emit.state('task.defined', task)], refusals: [], raw: record.canonical };
}

function runOf(
  record: NativeRecord,
  about: Fields,
  logs: EpisodeLogs,
  { oracle = [], refusals = [], incomplete = false }: More = {},
): Converted {
  const episodeId = recordId(NAME, record);
  const {
    validation_decision: decision,
    validation_rationale: why,
    has_exception: failed,
    run_number: attempt,
  } = about;
  const reward = failed === true ? null : decision === 'Valid' ? 1 : decision === 'Invalid' ? 0 : null;
  const task = taskIn(about, logs.asked, oracle);
  const team = [about.main_agent_type ?? null, about.model_id ?? null];
  const drafts = runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical: record.canonical,
    task,
    started: {
      flags: [NO_TOKEN_IDS, ...(incomplete || refusals.length > 0 ? ['incomplete'] : [])],
      ...(isIdentifier(about.scenario_id) ? { group_id: hashId(NAME, about.scenario_id, ...team) } : {}),
      ...(Number.isSafeInteger(attempt) && (attempt as number) >= 0 ? { attempt: attempt as number } : {}),
      ...given(
        'tags',
        without({ ...given('seed', about.seed ?? undefined), ...given('start_time', about.start_time ?? undefined) }),
      ),
    },
    agents: [...logs.agents].map(([agent, { system, parent, name }]) => ({
      agent_id: agent,
      ...given('system_instructions', system),
      ...given('parent_agent_id', parent),
      ...given('name', name),
      ...(typeof about.model_id === 'string' ? { model: about.model_id } : {}),
    })),
    events: [
      ...logs.drafts,
      ...(reward === null
        ? []
        : [
            emit.event('feedback.recorded', [episodeId, 'validation'], {
              feedback_id: hashId(NAME, episodeId, 'validation'),
              target: { kind: 'episode', id: episodeId, episode_id: episodeId },
              kind: 'reward',
              name: 'validation',
              value: reward,
              by: 'env',
              ...given('explanation', typeof why === 'string' ? why : undefined),
            }),
          ]),
    ],
    finished: {
      outcome: failed === true ? 'error' : reward === null ? 'unknown' : reward === 1 ? 'success' : 'failure',
      ...given('answer', logs.answer),
      ...(failed === true
        ? {
            unmapped:
              without({ exception_type: about.exception_type, exception_message: about.exception_message }) ?? {},
          }
        : {}),
      ...(typeof about.run_duration === 'number' ? { totals: { duration_s: about.run_duration } } : {}),
    },
  });
  return { drafts, refusals: [...refusals], raw: record.canonical };
}

const ofUser = (action: Fields): boolean =>
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
function eventDrafts(episodeId: string, events: readonly unknown[], agent: string, refusals: NativeRefusal[]): Draft[] {
  return events.flatMap((event, seq): Draft[] => {
    if (!isRecord(event) || !isRecord(event.action)) {
      refusals.push(refusal('bad_shape', `completed_events[${seq}].action`, 'an action {app, function, args}', event));
      return [];
    }
    const { action, metadata: result, event_type: type } = event;
    const id = isIdentifier(event.event_id) ? event.event_id : `event/${seq}`;
    const { exception, return_value: output } = isRecord(result) ? result : {};
    const place = { episode_id: episodeId, seq };
    const name = [action.app, action.function].filter((part) => typeof part === 'string').join('__');
    if (type === 'AGENT') {
      return [
        emit.event('tool.called', [episodeId, id], {
          ...place,
          agent_id: agent,
          tool_call_id: id,
          name: isIdentifier(name) ? name : 'unknown',
          arguments: argumentsOf(action),
          type: 'function',
        }),
        emit.event('tool.returned', [episodeId, id], {
          ...place,
          tool_call_id: id,
          status: exception == null ? 'ok' : 'error',
          ...given('output', output ?? undefined),
          ...given('error', exception ?? undefined),
        }),
      ];
    }
    const text = ofUser(action) ? argumentsOf(action).content : undefined;
    if (typeof text === 'string')
      return [
        emit.event('message.sent', [episodeId, id], {
          ...place,
          message_id: id,
          from: 'user',
          role: 'user',
          content: text,
        }),
      ];
    const content = { type, name, arguments: argumentsOf(action), ...given('exception', exception ?? undefined) };
    return [emit.event('environment.observed', [episodeId, id], { ...place, kind: 'event', content })];
  });
}

/** Arguments are texts with the type that they had. */
function argumentsOf({ args }: Fields): Record<string, unknown> {
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
function lite(episodeId: string, value: Fields): EpisodeLogs {
  const histories = Object.entries(value.per_agent_interaction_histories as Fields).filter(([name]) =>
    isIdentifier(name),
  );
  const usages = isRecord(value.per_agent_llm_usage_stats) ? value.per_agent_llm_usage_stats : {};
  const main = isIdentifier(value.main_agent_type) ? value.main_agent_type : 'agent';
  const agents = new Map<string, { system?: string }>();
  let asked: string | undefined;
  let seq = 0;
  const drafts = histories.flatMap(([native, history], place): Draft[] => {
    const agent = place === 0 ? main : native;
    const entries = list(history).filter(isRecord);
    const messages = messagesIn(entries);
    const answers = messages.filter(({ role }) => role === 'assistant').length;
    const counts = isRecord(usages[native]) ? usages[native] : {};
    const billed = list(counts.prompt_tokens).length === answers ? counts : {};
    const [first] = messages;
    agents.set(agent, first?.role === 'system' && typeof first.content === 'string' ? { system: first.content } : {});
    let turn = 0;
    let open: string | null = null;
    return messages.flatMap((message, i): Draft[] => {
      seq++;
      const id = `${hashId(NAME, native).slice(0, 12)}/${i}`;
      const text = typeof message.content === 'string' ? message.content : undefined;
      const place = { episode_id: episodeId, seq };
      if (message.role === 'system') return [];
      if (entries[i]!.role === 'tool-response' && open !== null) {
        const status = /^\[OUTPUT OF STEP \d+\] ERROR:/.test(text ?? '') ? 'error' : 'ok';
        const call = open;
        open = null;
        return [
          emit.event('tool.returned', [episodeId, call], {
            ...place,
            tool_call_id: call,
            status,
            ...given('output', message.content ?? undefined),
          }),
        ];
      }
      if (message.role !== 'assistant') {
        if (message.role === 'user' && agent === main) asked ??= unframed(text);
        return [emit.event('message.sent', [episodeId, id], { ...place, message_id: id, from: 'user', ...message })];
      }
      const [input, output] = [list(billed.prompt_tokens)[turn], list(billed.completion_tokens)[turn]];
      const call = { ...place, call_id: id, agent_id: agent, turn: turn++ };
      const action = actionIn(text);
      open = action ? id : null;
      return [
        emit.event('generation.requested', [episodeId, id], { ...call, input: messages.slice(0, i) }),
        emit.event('generation.completed', [episodeId, id], {
          ...call,
          choices: [{ index: 0, ...given('content', message.content ?? undefined) }],
          ...(input || output ? { usage: { input_tokens: input, output_tokens: output } } : {}),
        }),
        ...(action
          ? [emit.event('tool.called', [episodeId, id], { ...call, tool_call_id: id, ...action, type: 'function' })]
          : []),
      ];
    });
  });
  return { drafts, agents, answer: undefined, asked };
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

/**
 * What a kickoff returns (`CrewOutput.model_dump_json`): the tasks with their agents and answers, and since 1.x the conversation of each
 * task. Its `token_usage` adds up the counts of the agents, and counts a model that two of them share twice.
 */
import type { Draft } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { badConversation, conversationDrafts, toolLedger } from '../kit/conversation.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { badIdentifier, type Emitter, recordId, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

type Task = { readonly native: JsonObject; readonly agent: string; readonly messages: readonly ChatMessage[] };

export const isCrewOutput = (value: unknown): value is JsonObject & { readonly tasks_output: readonly unknown[] } =>
  isRecord(value) && 'raw' in value && Array.isArray(value.tasks_output);

export function convertCrewOutput(emit: Emitter, format: string, record: NativeRecord): Conversion {
  const { value: output } = record;
  if (!isCrewOutput(output)) return refused(refusal('bad_type', '', 'the output of a crew', output));
  const refusals: NativeRefusal[] = [];
  const tasks = output.tasks_output.flatMap((native, i): Task[] => {
    const task = taskIn(native, `tasks_output[${i}]`);
    if ('code' in task) refusals.push(task);
    return 'code' in task ? [] : [task];
  });
  const episodeId = recordId(format, record);
  const events: Draft[] = [];
  const ledger = toolLedger();
  let seq = 0;
  for (const task of tasks) {
    events.push(assigned(emit, episodeId, seq++, task));
    const { native, agent, messages } = task;
    if (messages.length === 0) events.push(answered(emit, episodeId, seq++, task));
    else {
      const answer = messages.at(-1)!.role === 'assistant' ? [] : [{ role: 'assistant', content: native.raw }];
      const whole = [...messages, ...answer];
      pushAll(events, conversationDrafts(emit, whole, { episodeId, agentOf: () => agent, first: seq, ledger }));
      seq += whole.length;
    }
  }
  const { raw } = output;
  return {
    drafts: runDrafts(emit, {
      format,
      episodeId,
      canonical: record.canonical,
      task: taskOf(format, tasks[0]?.native.description),
      started: { flags: [NO_TOKEN_IDS, ...(refusals.length > 0 ? ['incomplete'] : [])] },
      agents: new Set(tasks.map(({ agent }) => agent)),
      events,
      finished: {
        outcome: 'unknown',
        seq,
        ...(typeof raw === 'string' ? { answer: raw } : {}),
        ...given('unmapped', without(output, 'tasks_output', ...(typeof raw === 'string' ? ['raw'] : []))),
      },
    }),
    refusals,
    raw: record.canonical,
  };
}

/** A task with its messages, which end before or with the answer; versions before 1.x have none. */
function taskIn(native: unknown, field: string): Task | NativeRefusal {
  if (!isRecord(native)) return refusal('bad_type', field, 'the output of a task', native);
  const agent = typeof native.agent === 'string' ? native.agent.trim() : native.agent;
  const bad = badIdentifier(agent, `${field}.agent`);
  if (bad) return bad;
  if (typeof native.raw !== 'string') return refusal('bad_type', `${field}.raw`, 'the answer as a text', native.raw);
  const { messages = [] } = native;
  const unread = badConversation(messages, `${field}.messages`);
  if (unread) return unread;
  return { native, agent: agent as string, messages: messages as readonly ChatMessage[] };
}

/** The answer of a task whose messages are unknown. */
const answered = (emit: Emitter, episodeId: string, seq: number, { native, agent }: Task): Draft =>
  emit.event('generation.completed', [episodeId, seq], {
    episode_id: episodeId,
    seq,
    call_id: `m${seq}`,
    agent_id: agent,
    choices: [{ index: 0, content: native.raw as string }],
  });

function assigned(emit: Emitter, episodeId: string, seq: number, { native, agent }: Task): Draft {
  const { description, expected_output: expected, name } = native;
  return emit.event('decision.made', [episodeId, seq], {
    episode_id: episodeId,
    seq,
    kind: 'assign',
    decision: { ...without({ task: description, expected_output: expected, task_name: name }), agent },
    ...given('unmapped', without(native, 'description', 'expected_output', 'name', 'agent', 'messages')),
  });
}

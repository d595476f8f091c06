/**
 * ATIF 1.8 of Harbor (its package harbor 0.26.0, models/trajectories): a trajectory for each conversation of one agent. Answers that are no
 * rows of the dataset are marked as copied context, which is not to be trained on.
 */
import type { JsonObject } from '../../../ingest/events/json.ts';
import { type Conversation, conversationsOf } from './conversations.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { argumentsOf, isAssistant, type Message, type ToolCall } from './message.ts';
import { type Chat, chatsOf } from './turn.ts';

export const atif: Layout = {
  name: 'atif',
  about: 'ATIF 1.8: a trajectory for each conversation, with tool calls, results, token ids and logprobs',
  refuses: LEARNS_ALL,
  holds: new Set([
    ...(['names of speakers', 'reasoning', 'tool calls', 'ids of tool calls', 'tool definitions'] as const),
    ...(['token ids', 'log-probabilities', 'reward', 'advantage', 'weight'] as const),
    ...(['ground truth', 'step ids'] as const),
  ]),
  files: (splits, { leftOut, notHeld }) =>
    splits.map(({ split, turns }) => {
      const talks = conversationsOf(chatsOf(turns, leftOut));
      const rows = talks.flatMap((talk) => {
        const steps = stepsOf(talk);
        if (steps === null) leftOut.add('a result of a tool follows no answer', talk.learnt.length);
        for (const { tokens } of talk.turns)
          if (tokens !== null && tokens.mask !== null) notHeld.add('loss masks of tokens');
        return steps === null ? [] : [trajectoryOf(talk, steps)];
      });
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    }),
};

function trajectoryOf({ last, turns }: Conversation, steps: readonly JsonObject[]): JsonObject {
  const { episode_id, task_id, group_id, role, ground_truth } = last;
  return {
    schema_version: 'ATIF-v1.8',
    session_id: episode_id,
    trajectory_id: `${episode_id}/${turns[0]!.step_id ?? 'answer'}`,
    agent: {
      name: last.agent ?? last.role ?? 'agent',
      version: 'unknown',
      ...(last.tools === null ? {} : { tool_definitions: last.tools }),
    },
    steps,
    extra: known({ task_id, group_id, role, ground_truth }),
  };
}

/** Null where a result of a tool has no answer before it, in which it could stand. */
function stepsOf({ messages, learnt, turns }: Conversation): readonly JsonObject[] | null {
  const steps: JsonObject[] = [];
  for (const [place, message] of messages.entries()) {
    const step_id = steps.length + 1;
    const before = steps.at(-1);
    if (message.role === 'tool') {
      if (before?.source !== 'agent') return null;
      steps[steps.length - 1] = withResult(before, message);
    } else if (isAssistant(message)) {
      const turn = turns[learnt.indexOf(place)] ?? null;
      steps.push({ step_id, source: 'agent', ...answerOf(message, step_id, turn) });
    } else steps.push({ step_id, source: message.role, message: message.text ?? '', ...extraOf(message) });
  }
  return steps;
}

const extraOf = ({ name }: Message): JsonObject => (name === null ? {} : { extra: { name } });

const answerOf = (message: Message, step_id: number, turn: Chat | null): JsonObject => ({
  message: message.text ?? '',
  ...known({ reasoning_content: message.reasoning }),
  ...(message.calls.length === 0 ? {} : { tool_calls: message.calls.map((call, i) => callOf(call, step_id, i)) }),
  ...(turn === null ? { is_copied_context: true } : { metrics: metricsOf(turn) }),
  ...extraOf(message),
});

function callOf(call: ToolCall, step_id: number, index: number): JsonObject {
  const read = argumentsOf(call);
  return {
    tool_call_id: call.id ?? `call_${step_id}_${index}`,
    function_name: call.name,
    arguments: read ?? {},
    ...(read === null ? { extra: { arguments: call.written } } : {}),
  };
}

const metricsOf = ({ tokens, step_id, reward, advantage, weight }: Chat): JsonObject => ({
  ...known({
    prompt_token_ids: tokens?.prompt,
    completion_token_ids: tokens?.answer,
    logprobs: tokens?.logprobs,
  }),
  extra: known({ step_id, reward, advantage, weight }),
});

/** A result may name a call of its own step only. */
function withResult(step: JsonObject, { text, callId, name }: Message): JsonObject {
  const calls = (step.tool_calls ?? []) as readonly JsonObject[];
  const asked = calls.some((call) => call.tool_call_id === callId);
  const extra = known({ name, tool_call_id: asked ? null : callId });
  const result = {
    ...(asked ? { source_call_id: callId } : {}),
    content: text ?? '',
    ...(Object.keys(extra).length > 0 ? { extra } : {}),
  };
  const before = (step.observation as { readonly results: readonly JsonObject[] } | undefined)?.results ?? [];
  return { ...step, observation: { results: [...before, result] } };
}

const known = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));

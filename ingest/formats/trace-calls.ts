/** Model calls and tool runs as their events. */
import type { Draft, EventData } from '../events.ts';
import { readArguments } from './chat-message.ts';
import { given } from './native.ts';
import type { Act } from './trace.ts';
import type { TraceTree } from './trace-tree.ts';
import { millisecondsBetween, type Speak, seqOf } from './trace-voice.ts';

export function generationDrafts(
  speak: Speak,
  act: Act,
  agent: string | null,
  tree: TraceTree,
  kept: Record<string, unknown>,
): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  if (what.kind !== 'generation') return [];
  const call = {
    episode_id: trace,
    call_id: id,
    ...given('agent_id', agent ?? undefined),
    ...seqOf(start ?? end),
    ...(act.parent ? { parent_id: act.parent } : {}),
  };
  const said = { revision, full: agent !== null };
  const { seed, temperature } = (what.params ?? {}) as Record<string, unknown>;
  const answered = what.answered !== false;
  const requested: EventData<'generation.requested'> = {
    ...call,
    ...given('model', what.model),
    ...given('params', what.params),
    ...(what.input ? { input: [...what.input] } : {}),
    ...given('tools', what.tools),
    ...(answered ? { native: { format: act.format } } : kept),
  };
  const flags = [
    ...(act.flags ?? []),
    ...asFlag(
      tree.askedBy(act).some((asked) => asked.parse_error !== null),
      'unparsed_arguments',
    ),
  ];
  const completed: EventData<'generation.completed'> = {
    ...call,
    choices: [...what.choices],
    ...given('prompt_token_ids', what.promptTokenIds ? [...what.promptTokenIds] : undefined),
    ...given('response_id', what.responseId),
    ...given('response_model', what.responseModel),
    ...given('model_version', what.modelVersion),
    ...(Number.isSafeInteger(seed) ? { seed: seed as number } : {}),
    ...(typeof temperature === 'number' ? { temperature } : {}),
    ...given('usage', what.usage),
    ...given('latency_ms', what.latencyMs ?? millisecondsBetween(start, end)),
    ...given('error', act.error),
    ...kept,
    ...(flags.length > 0 ? { flags } : {}),
  };
  return [
    ...(what.asked === false ? [] : [speak('generation.requested', [trace, id], requested, start, said)]),
    ...(answered ? [speak('generation.completed', [trace, id], completed, end, said)] : []),
    ...tree.askedBy(act).map((asked) => {
      const { id: toolCallId, nativeId, call: _, candidate, ...rest } = asked;
      return speak(
        'tool.called',
        [trace, id, candidate, asked.index],
        {
          ...call,
          ...seqOf(end ?? start),
          tool_call_id: toolCallId,
          ...rest,
          native: { format: act.format, ...given('tool_call_id', nativeId ?? undefined), choice: candidate },
        },
        end ?? start,
        said,
      );
    }),
  ];
}

const asFlag = (holds: boolean, flag: string): string[] => (holds ? [flag] : []);

export function toolDrafts(
  speak: Speak,
  act: Act,
  agent: string | null,
  tree: TraceTree,
  kept: Record<string, unknown>,
): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  if (what.kind !== 'tool') return [];
  const asked = tree.answers(act);
  const toolCallId = asked?.id ?? what.callId ?? id;
  const caller = asked ? tree.agentOf(asked.call) : agent;
  const around = act.parent === null ? undefined : tree.byId.get(act.parent);
  const callId = asked?.call.id ?? (around?.what.kind === 'generation' && tree.isLeaf(around) ? around.id : undefined);
  const here = {
    episode_id: trace,
    tool_call_id: toolCallId,
    ...given('call_id', callId),
    ...(act.parent ? { parent_id: act.parent } : {}),
  };
  const called = asked
    ? []
    : [
        speak(
          'tool.called',
          [trace, id],
          {
            ...here,
            ...seqOf(start),
            ...given('agent_id', caller ?? undefined),
            name: what.tool,
            type: what.type ?? 'function',
            ...(what.asked === undefined ? {} : readArguments(what.asked)),
            native: { format: act.format, ...given('tool_call_id', what.callId ?? undefined) },
            flags: ['asked_elsewhere'],
          },
          // Where a model call that is not at hand asked for it, what that call says shows: an unknown time comes first.
          what.callId === null ? start : null,
          { revision, full: false },
        ),
      ];
  const status = what.status ?? (act.error === undefined ? 'ok' : 'error');
  return [
    ...called,
    ...(end === null && what.output === undefined
      ? []
      : [
          speak(
            'tool.returned',
            [trace, id],
            {
              ...here,
              ...seqOf(end ?? start),
              status,
              ...given('output', what.output),
              ...given('error', act.error),
              ...given('duration_ms', millisecondsBetween(start, end)),
              ...kept,
              native: { ...(kept.native as object), ...given('tool_call_id', what.callId ?? undefined) },
            },
            end,
            { revision, full: asked !== null },
          ),
        ]),
  ];
}

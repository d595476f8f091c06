/** The events of a CrewAI batch, one by one, as ours. */
import type { Draft, EventData } from '../../events/events.ts';
import { canonicalJson, given, isRecord, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Emitter } from '../kit/native.ts';
import { usageOf } from '../kit/usage.ts';
import { type CrewEvent, inputOf, scoreDraft } from './crewai-values.ts';

type OpenTool = { readonly id: string; readonly tool: string; readonly asked: string };

/** Maps events in their order; a call or a tool is paired with earlier events. */
export function crewEmitter(emit: Emitter, episodeId: string): (event: CrewEvent) => Draft[] {
  const latest = new Map<string | null, { readonly callId: string; count: number }>();
  const open: OpenTool[] = [];

  const draftsOf = (event: CrewEvent): Draft[] => {
    const { type, id, data, agent, sequence, time, parent } = event;
    const about = {
      episode_id: episodeId,
      seq: sequence,
      ...(parent === null ? {} : { parent_id: parent }),
      native: { type, ids: { event_id: id } },
    };
    const rest = (...known: string[]) => given('unmapped', without(data, 'type', 'agent_role', ...known));
    const byAgent = agent === null ? {} : { agent_id: agent };
    switch (type) {
      case 'agent_execution_started':
        return agent === null ? [] : agentStarted(event, about);
      case 'agent_execution_completed':
      case 'agent_execution_error': {
        if (agent === null) return [];
        const errored = type === 'agent_execution_error';
        const reason = typeof data.error === 'string' ? { reason: data.error } : {};
        const known = ['agent_goal', 'agent_backstory', ...(typeof data.error === 'string' ? ['error'] : [])];
        return [
          emit.event(
            'agent.changed',
            [episodeId, id],
            { ...about, agent_id: agent, state: errored ? 'errored' : 'stopped', ...reason, ...rest(...known) },
            time,
          ),
        ];
      }
      case 'llm_call_started':
        return [requested(event, about)];
      case 'llm_call_completed':
      case 'llm_call_failed':
        return [completed(event, about)];
      case 'tool_usage_started':
        return [called(event, about)];
      case 'tool_usage_finished':
      case 'tool_usage_error':
        return returned(event, about);
      case 'task_started':
        return [
          emit.event(
            'decision.made',
            [episodeId, id],
            { ...about, kind: 'assign', decision: { ...without(data, 'type'), ...byAgent } },
            time,
          ),
        ];
      case 'crew_test_result':
      case 'agent_evaluation_completed': {
        const score = scoreDraft(emit, episodeId, event);
        if (score) return [score];
      }
    }
    return [emit.event('environment.observed', [episodeId, id], { ...about, kind: type, content: data }, time)];
  };

  type About = { episode_id: string; seq: number; native: Record<string, unknown> };
  const callIdOf = ({ data, id }: CrewEvent): string => (isIdentifier(data.call_id) ? data.call_id : id);

  const agentStarted = ({ id, data, agent, time }: CrewEvent, about: About): Draft[] => {
    const { agent_goal: goal, agent_backstory: story } = data;
    const persona = [goal, story].filter((text) => typeof text === 'string' && text !== '').join('\n\n');
    const known = [
      'type',
      'agent_role',
      ...(typeof goal === 'string' ? ['agent_goal'] : []),
      ...(typeof story === 'string' ? ['agent_backstory'] : []),
    ];
    return [
      emit.event('agent.defined', [episodeId, agent!], {
        episode_id: episodeId,
        agent_id: agent!,
        name: agent!,
        role: agent!,
        ...(persona === '' ? {} : { system_instructions: persona }),
      }),
      emit.event(
        'agent.changed',
        [episodeId, id],
        { ...about, agent_id: agent!, state: 'started', ...given('unmapped', without(data, ...known)) },
        time,
      ),
    ];
  };

  const requested = (event: CrewEvent, about: About): Draft => {
    const { data, agent, time } = event;
    const { model, messages, tools } = data;
    const input = inputOf(messages);
    const known = [
      'type',
      'agent_role',
      'call_id',
      'messages',
      'tools',
      'agent_id',
      'task_id',
      ...(typeof model === 'string' ? ['model'] : []),
    ];
    const params = without(data, ...known);
    return emit.event(
      'generation.requested',
      [episodeId, callIdOf(event)],
      {
        ...about,
        call_id: callIdOf(event),
        ...(agent === null ? {} : { agent_id: agent }),
        ...(typeof model === 'string' ? { model } : {}),
        ...given('params', params),
        ...given('input', input ?? undefined),
        ...given('tools', tools ?? undefined),
        ...given(
          'unmapped',
          without({
            ...given('messages', input ? undefined : messages),
            task_id: data.task_id,
            agent_id: data.agent_id,
          }),
        ),
      },
      time,
    );
  };

  const completed = (event: CrewEvent, about: About): Draft => {
    const { data, agent, time, type } = event;
    const { response, usage, finish_reason: reason, response_id, model, error } = data;
    const callId = callIdOf(event);
    latest.set(agent, { callId, count: 0 });
    const failed = type === 'llm_call_failed';
    const content = typeof response === 'string' ? response : writtenArguments(response ?? null);
    const known = [
      'type',
      'agent_role',
      'call_id',
      'response',
      'error',
      'messages',
      ...(isRecord(usage) ? ['usage'] : []),
      ...(typeof model === 'string' ? ['model'] : []),
    ];
    const choice: EventData<'generation.completed'>['choices'][number] = {
      index: 0,
      ...(response === undefined || response === null ? {} : { content }),
      ...(typeof reason === 'string' ? { finish_reason: reason } : {}),
    };
    return emit.event(
      'generation.completed',
      [episodeId, callId],
      {
        ...about,
        call_id: callId,
        ...(agent === null ? {} : { agent_id: agent }),
        choices: failed ? [] : [choice],
        ...given('usage', usageOf(usage)),
        ...(isIdentifier(response_id) ? { response_id } : {}),
        ...(typeof model === 'string' ? { response_model: model } : {}),
        ...given('error', failed ? (error ?? 'failed') : undefined),
        ...given('unmapped', without(data, ...known, 'finish_reason', 'response_id')),
      },
      time,
    );
  };

  const called = ({ id, data, agent, time }: CrewEvent, about: About): Draft => {
    const by = latest.get(agent);
    const name = isIdentifier(data.tool_name) ? data.tool_name : 'unknown';
    open.push({ id, tool: name, asked: canonicalJson(data.tool_args ?? null) });
    const text = typeof data.tool_args === 'string';
    return emit.event(
      'tool.called',
      [episodeId, id],
      {
        ...about,
        tool_call_id: id,
        ...(by ? { call_id: by.callId, index: by.count++ } : {}),
        ...(agent === null ? {} : { agent_id: agent }),
        name,
        type: 'function',
        ...(text ? { arguments_raw: data.tool_args as string } : given('arguments', data.tool_args)),
        ...given('unmapped', without(data, 'type', 'agent_role', 'tool_name', 'tool_args')),
      },
      time,
    );
  };

  const returned = (event: CrewEvent, about: About): Draft[] => {
    const { id, data, time, type, parent } = event;
    const asked = canonicalJson(data.tool_args ?? null);
    const place = [
      open.findLastIndex((one) => one.id === parent),
      open.findLastIndex((one) => one.tool === data.tool_name && one.asked === asked),
      open.findLastIndex((one) => one.tool === data.tool_name),
    ].find((at) => at >= 0);
    // An older version reports only the end: the call was made nevertheless.
    const unseen = place === undefined ? [called({ ...event, time: null }, about)] : [];
    const [{ id: callId }] = open.splice(place ?? open.length - 1, 1) as [OpenTool];
    const { output, error, from_cache: cached, started_at: from, finished_at: to } = data;
    const failed = type === 'tool_usage_error';
    const took = typeof from === 'string' && typeof to === 'string' ? Date.parse(to) - Date.parse(from) : Number.NaN;
    return [
      ...unseen,
      emit.event(
        'tool.returned',
        [episodeId, id],
        {
          ...about,
          tool_call_id: callId,
          status: failed ? 'error' : 'ok',
          ...given('output', output),
          ...given('error', failed ? error : undefined),
          ...(typeof cached === 'boolean' ? { from_cache: cached } : {}),
          ...(took >= 0 ? { duration_ms: took } : {}),
          ...given(
            'unmapped',
            without(
              data,
              'type',
              'agent_role',
              'tool_name',
              'tool_args',
              'output',
              'from_cache',
              ...(failed ? ['error'] : []),
            ),
          ),
        },
        time,
      ),
    ];
  };

  return draftsOf;
}

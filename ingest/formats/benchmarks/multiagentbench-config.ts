/** The configuration of a MultiAgentBench task: the task and the team that is to do it. */
import { given, hashId, isRecord, without } from '../../events/json.ts';
import type { Converted, NativeRecord } from '../kit/format.ts';
import { type Emitter, refusal, refused } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';

export const isMarbleConfig = (value: unknown): boolean =>
  isRecord(value) &&
  Array.isArray(value.agents) &&
  isRecord(value.task) &&
  'content' in value.task &&
  ('coordinate_mode' in value || 'relationships' in value);

export function convertMarbleConfig(emit: Emitter, format: string, { value, canonical }: NativeRecord): Converted {
  const config = value as Record<string, unknown>;
  const { scenario, task_id: nativeId, agents, relationships, task } = config;
  const { content, output_format: output, ...rest } = task as Record<string, unknown>;
  const defined = taskOf(format, content, {
    ...(typeof scenario === 'string' ? { domain: scenario } : {}),
    ...given('constraints', output === undefined ? undefined : { output_format: output }),
    ...given('tags', without({ task_id: nativeId })),
    ...given(
      'unmapped',
      without({ ...without(config, 'scenario', 'task_id', 'agents', 'relationships', 'task'), task: without(rest) }),
    ),
  });
  if (!defined) return refused(refusal('bad_type', 'task.content', 'the text of the task', content));
  const members = (agents as unknown[]).filter(isRecord);
  const edges = (Array.isArray(relationships) ? relationships : []).flatMap((edge) =>
    Array.isArray(edge) && edge.length >= 2 && edge.every((end) => typeof end === 'string') ? [edge as string[]] : [],
  );
  const hash = hashId(format, members, edges);
  return {
    drafts: [
      emit.state('task.defined', defined),
      emit.state('team.defined', {
        team_id: `${format}/${hash}`,
        name: format,
        content_hash: hash,
        agents: members.map(({ agent_id: name, ...more }) => ({ ...given('name', name), ...more })),
        edges,
      }),
    ],
    refusals: [],
    raw: canonical,
  };
}

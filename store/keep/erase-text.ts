/**
 * An event without its texts: ids, kinds, numbers, places and order stay, so that every table keeps its rows and counts; text,
 * values of any shape, token ids and what the source had beside them go. Pure; erasing again changes nothing.
 */
import { EXTENSIONS } from '../../ingest/events/decode.ts';
import type { EventName } from '../../ingest/events/events.ts';
import { isRecord } from '../../ingest/events/json.ts';

export const ERASED = '[erased]';

/** Texts that are names of the recording, not content: without them a row would lose its place. */
const NAMES: ReadonlySet<string> = new Set([
  ...[
    'episode_id',
    'task_id',
    'group_id',
    'team_id',
    'agent_id',
    'call_id',
    'message_id',
    'tool_call_id',
    'feedback_id',
  ],
  ...[
    'artifact_id',
    'parent_id',
    'parent_episode_id',
    'parent_agent_id',
    'parent_call_id',
    'parent_step_id',
    'step_id',
  ],
  ...['child_episode_id', 'response_id', 'checkpoint_id', 'in_reply_to', 'other_id', 'key', 'source', 'id', 'op'],
  ...['kind', 'type', 'role', 'state', 'status', 'outcome', 'finish_reason', 'media_type', 'policy', 'model'],
  ...['response_model', 'model_version', 'split', 'by', 'from', 'from_agent', 'to_agent', 'sha256', 'name'],
]);
/** Values made of names: recipients, targets, programs. */
const SHAPES: ReadonlySet<string> = new Set([
  'target',
  'usage',
  'pass',
  'redactions',
  'choices',
  'input',
  'matrix',
  'programs',
  'tests',
]);
/** Free text that a row must have. */
const NEEDED: Readonly<Partial<Record<EventName, string>>> = { 'decision.made': 'decision' };
const FLAG = /^[a-z_]{1,40}$/;

/** `digest` makes another text of a hash, so that it does not reveal the erased text. */
export function eraseText(name: EventName, data: unknown, digest: (hash: string) => string): Record<string, unknown> {
  const members = Object.entries(isRecord(data) ? data : {}).flatMap(([key, value]) => {
    const kept = member(key, value, digest, name === 'tool.called' || name === 'feedback.recorded');
    return kept === undefined ? [] : [[key, kept] as const];
  });
  const needed = NEEDED[name];
  return {
    ...Object.fromEntries(members),
    ...(needed === undefined ? {} : { [needed]: ERASED }),
    // Whoever plays it later holds the same text, and is found by this.
    ...(name === 'task.defined' && namesSubject(data) ? { tags: { subject: ERASED } } : {}),
  };
}

const namesSubject = (data: unknown): boolean =>
  isRecord(data) && [data, data.tags, data[EXTENSIONS]].some((one) => isRecord(one) && one.subject !== undefined);

function member(key: string, value: unknown, digest: (hash: string) => string, named: boolean): unknown {
  if (value === null) return null;
  if (key === 'subject') return undefined;
  if (key === 'flags') return Array.isArray(value) ? value.filter((flag) => FLAG.test(String(flag))) : undefined;
  if (typeof value === 'string') {
    if ((key === 'sha256' || key === 'artifact_id') && /^[0-9a-f]{64}$/.test(value)) return digest(value);
    // A tool and a feedback are known by their name; anybody else's name is what somebody is called.
    if (key === 'name' && !named) return undefined;
    if (key === 'value' || key === 'annotator' || key === 'session_id' || key === 'env_id') return undefined;
    return NAMES.has(key) ? value : ERASED;
  }
  if (typeof value !== 'object') return value;
  if (key === 'content') return ERASED;
  if (key === 'to') return value;
  if (!SHAPES.has(key)) return undefined;
  if (Array.isArray(value)) {
    if (key === 'pass' || key === 'tests' || key === 'programs' || key === 'choices' || key === 'input')
      return value.map((item) => (isRecord(item) ? inner(item, digest) : item));
    return undefined;
  }
  return inner(value as Record<string, unknown>, digest);
}

const inner = (value: Record<string, unknown>, digest: (hash: string) => string): unknown =>
  Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => {
      const kept = member(key, item, digest, false);
      return kept === undefined ? [] : [[key, kept] as const];
    }),
  );

/** The data of an amendment, without the text it would put back; `about` is the event it corrects. */
export function eraseAmendment(
  data: Record<string, unknown>,
  about: EventName | null,
  digest: (hash: string) => string,
): Record<string, unknown> {
  const { key, target, op, patch, set } = data;
  return {
    key,
    target,
    op,
    ...(patch === undefined || about === null ? {} : { patch: eraseText(about, patch, digest) }),
    ...(Array.isArray(set) ? { set: set.map((one) => eraseSetting(one as Record<string, unknown>)) } : {}),
  };
}

/** A number or a truth value at a place stays, as a corrected reward; text becomes the mark, anything larger goes. */
function eraseSetting({ path, value }: Record<string, unknown>): object {
  if (typeof value === 'string') return { path, value: NAMES.has(String(path).split('/').at(-1)!) ? value : ERASED };
  return { path, value: typeof value === 'object' ? null : value };
}

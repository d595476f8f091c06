/** Events and states of ReDel: how they are known, and when an event cannot be read. */
import { isRecord } from '../../events/json.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

export type RedelEvent = Readonly<Record<string, unknown>> & { readonly type: string };

const TYPES = new Set([
  'kani_spawn',
  'kani_state_change',
  'kani_message',
  'tokens_used',
  'root_message',
  'round_complete',
  'send_message',
  'session_meta_update',
  'error',
]);

export const isRedelEvent = (value: unknown): boolean =>
  isRecord(value) && TYPES.has(value.type as string) && typeof value.timestamp === 'number';

export const isRedelState = (value: unknown): boolean =>
  isRecord(value) && Array.isArray(value.state) && 'n_events' in value && 'last_modified' in value;

const ROLES = new Set(['system', 'user', 'assistant', 'function', 'tool']);

/** Why an event cannot be read; null where it can. A message that is there is an object. */
export function badEvent(value: unknown): NativeRefusal | null {
  if (!isRecord(value)) return refusal('bad_type', '', 'an event object', value);
  const { type, msg } = value;
  if (typeof type !== 'string') return refusal('bad_type', 'type', 'the type of the event', type);
  const isMessage = type === 'kani_message' || type === 'root_message';
  if (type.startsWith('kani_') || type === 'tokens_used') {
    const bad = badIdentifier(value.id, 'id');
    if (bad) return bad;
  }
  if (type === 'error') return null;
  if (!isMessage && !('msg' in value)) return null;
  if (!isRecord(msg)) return refusal('bad_type', 'msg', 'a message object', msg);
  return ROLES.has(msg.role as string)
    ? null
    : refusal('bad_type', 'msg.role', `one of ${[...ROLES].join(', ')}`, msg.role);
}

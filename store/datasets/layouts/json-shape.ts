/** The one type that holds JSON values exactly as they are, where there is one: read back, every value of a column has the members of all. */
import { isRecord } from '../../../ingest/events/json.ts';
import { spellingIn } from '../../../ingest/events/spelling.ts';
import type { ValueShape } from '../shape.ts';

/** Null where no shape holds all of `values`: their members or the order of these differ, or one is null, an object without members, a large integer or spelled otherwise than a column would. */
export function exactShape(values: readonly unknown[]): ValueShape | null {
  const shapes = values.map(shapeOf);
  const [first = null] = shapes;
  return shapes.every((shape) => JSON.stringify(shape) === JSON.stringify(first)) ? first : null;
}

function shapeOf(value: unknown): ValueShape | null {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? (value === (value | 0) ? 'int' : null) : 'number';
  if (typeof value === 'object' && value !== null && spellingIn(value) !== undefined) return null;
  if (Array.isArray(value)) {
    const list = value.length === 0 ? 'text' : exactShape(value);
    return list === null ? null : { list };
  }
  if (!isRecord(value)) return null;
  const members = Object.entries(value).map(([name, member]) => [name, shapeOf(member)] as const);
  if (members.length === 0 || members.some(([, shape]) => shape === null)) return null;
  return { struct: Object.fromEntries(members) as Readonly<Record<string, ValueShape>> };
}

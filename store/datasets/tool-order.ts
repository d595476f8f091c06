/** The one order of members in which definitions of tools are shown to a model, when it answers and when it learns. Pure. */
import { isRecord } from '../../ingest/events/json.ts';

/** As OpenAI, and the models that were trained on its form, write a definition. */
const FIRST = ['type', 'function', 'name', 'description', 'parameters', 'enum', 'items', 'properties', 'required'];

/**
 * The definitions with their members in that order, others after them by name. The record is canonical JSON, which keeps no order: rows
 * would be learnt behind another prompt than the one that a client's own order gives while it is served.
 */
export const toolsInOrder = <Tool>(tools: readonly Tool[]): Tool[] => tools.map((tool) => inOrder(tool) as Tool);

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return toolsInOrder(value);
  if (!isRecord(value)) return value;
  const rank = (name: string) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  const names = Object.keys(value).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return Object.fromEntries(names.map((name) => [name, inOrder(value[name])]));
}

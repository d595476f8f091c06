/** The one form in which definitions of tools are shown to a model, when it answers and when it learns. Pure. */
import { isRecord } from '../../ingest/events/json.ts';

type Tool = Readonly<Record<string, unknown>>;

/** As OpenAI, and the models that were trained on its form, write a definition. */
const FIRST = ['type', 'function', 'name', 'description', 'parameters', 'enum', 'items', 'properties', 'required'];

/** What Anthropic and the Model Context Protocol call the parameters. */
const SCHEMAS = ['input_schema', 'inputSchema'] as const;

/**
 * Definitions as the chat API has them, which is how a policy is served, whichever API they were recorded from. Their members have that order,
 * others after them by name: the record is canonical JSON, which keeps no order. What is a name alone, or has none, defines nothing and is left
 * out.
 */
export const shownTools = (tools: readonly unknown[]): Tool[] =>
  tools.filter(isDefinition).map((tool) => inOrder(inChatForm(tool)) as Tool);

const isDefinition = (tool: unknown): tool is Tool =>
  isRecord(tool) && (isRecord(tool.function) || typeof tool.name === 'string' || typeof tool.type === 'string');

function inChatForm(tool: Tool): Tool {
  const { type, ...named } = tool;
  if (typeof tool.name !== 'string' || 'function' in tool) return tool;
  const schema = SCHEMAS.find((name) => isRecord(tool[name]));
  if (schema !== undefined && (type == null || type === 'custom' || type === 'function')) {
    const { name, description, [schema]: parameters } = tool;
    return { type: 'function', function: { name, ...(description == null ? {} : { description }), parameters } };
  }
  return type === 'function' || (type == null && isRecord(tool.parameters))
    ? { type: 'function', function: named }
    : tool;
}

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!isRecord(value)) return value;
  const rank = (name: string) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  const names = Object.keys(value).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return Object.fromEntries(names.map((name) => [name, inOrder(value[name])]));
}

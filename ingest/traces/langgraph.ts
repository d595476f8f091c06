/** Nodes of LangGraph as agents, by the metadata that every tracer of LangChain has of a run. */
import type { JsonObject } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';

/** The nodes in which the ready-made agents call their model (langgraph 1 `create_react_agent`, langchain 1 `create_agent`). */
const READY_MADE: ReadonlySet<unknown> = new Set(['agent', 'model']);

/**
 * The node in which something runs. A ready-made agent is a graph of its own whose node has the same name in all of them, so it is known
 * by the node that this graph stands in: `langgraph_checkpoint_ns` has the path, such as `writer:<id>|agent:<id>`.
 */
export function nodeOf({ langgraph_node: node, langgraph_checkpoint_ns: path }: JsonObject): string | null {
  if (!isIdentifier(node)) return null;
  if (!READY_MADE.has(node) || typeof path !== 'string') return node;
  const around = path
    .split('|')
    .map((part) => part.slice(0, part.lastIndexOf(':')))
    .findLast((name) => !READY_MADE.has(name));
  return isIdentifier(around) ? around : node;
}

/** Model calls and tool runs as their events. */
import type { Draft } from '../events/events.ts';
import { isRecord, parseRecord } from '../events/json.ts';
import { readArguments } from '../formats/kit/chat-message.ts';
import { APPARENT_ERROR } from '../formats/kit/conversation.ts';
import type { Act } from './trace.ts';
import { type Emit, millisecondsBetween, type Provenance, seqOf } from './trace-emit.ts';
import type { TraceTree } from './trace-tree.ts';

export function generationDrafts(
  emit: Emit,
  act: Act,
  agent: string | null,
  tree: TraceTree,
  kept: Provenance,
): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  if (what.kind !== 'generation') return [];
  const reading = { revision, full: agent !== null };
  const seq = seqOf(start ?? end);
  const parent = act.parent || undefined;
  const { seed, temperature } = (what.params ?? {}) as Record<string, unknown>;
  const answered = what.answered !== false;
  const asking = tree.askedBy(act);
  const drafts: Draft[] = [];
  if (what.asked !== false) {
    const requested = {
      agent_id: agent ?? undefined,
      call_id: id,
      episode_id: trace,
      flags: answered ? undefined : kept.flags,
      input: what.input && [...what.input],
      model: what.model,
      native: answered ? { format: act.format } : kept.native,
      params: what.params,
      parent_id: parent,
      seq,
      tools: what.tools,
      unmapped: answered ? undefined : kept.unmapped,
    };
    drafts.push(emit('generation.requested', [trace, id], requested, start, reading));
  }
  if (answered) {
    const unparsed = asking.some((asked) => asked.parse_error !== null);
    const completed = {
      agent_id: agent ?? undefined,
      call_id: id,
      choices: [...what.choices],
      episode_id: trace,
      error: act.error,
      flags: unparsed ? [...(kept.flags ?? []), 'unparsed_arguments'] : kept.flags,
      latency_ms: what.latencyMs ?? millisecondsBetween(start, end),
      model_version: what.modelVersion,
      native: kept.native,
      parent_id: parent,
      prompt_token_ids: what.promptTokenIds && [...what.promptTokenIds],
      response_id: what.responseId,
      response_model: what.responseModel,
      seed: Number.isSafeInteger(seed) ? (seed as number) : undefined,
      seq,
      temperature: typeof temperature === 'number' ? temperature : undefined,
      unmapped: kept.unmapped,
      usage: what.usage,
    };
    drafts.push(emit('generation.completed', [trace, id], completed, end, reading));
  }
  for (const asked of asking) {
    const called = {
      agent_id: agent ?? undefined,
      arguments: asked.arguments,
      arguments_raw: asked.arguments_raw,
      call_id: id,
      episode_id: trace,
      index: asked.index,
      name: asked.name,
      native: { choice: asked.candidate, format: act.format, tool_call_id: asked.nativeId ?? undefined },
      parent_id: parent,
      parse_error: asked.parse_error,
      seq: seqOf(end ?? start) ?? seq,
      tool_call_id: asked.id,
      type: asked.type,
    };
    drafts.push(emit('tool.called', [trace, id, asked.candidate, asked.index], called, end ?? start, reading));
  }
  return drafts;
}

export function toolDrafts(emit: Emit, act: Act, agent: string | null, tree: TraceTree, kept: Provenance): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  if (what.kind !== 'tool') return [];
  const asked = tree.answers(act);
  const around = act.parent === null ? undefined : tree.byId.get(act.parent);
  const callId = asked?.call.id ?? (around?.what.kind === 'generation' ? tree.callOf(around) : null) ?? undefined;
  const nativeId = what.callId ?? undefined;
  const here = { call_id: callId, id: asked?.id ?? what.callId ?? id, parent_id: act.parent || undefined };
  const outer = around?.what.kind === 'tool' ? { act: around, callId: around.what.callId } : null;
  const drafts: Draft[] = [];
  if (!asked) {
    const read = what.asked === undefined ? null : readArguments(what.asked);
    const called = {
      agent_id: agent ?? undefined,
      arguments: read ? read.arguments : undefined,
      arguments_raw: read?.arguments_raw,
      call_id: here.call_id,
      episode_id: trace,
      flags: ['asked_elsewhere'],
      name: what.tool,
      native: { format: act.format, tool_call_id: nativeId },
      parent_id: here.parent_id,
      parent_tool_call_id: outer ? (tree.answers(outer.act)?.id ?? outer.callId ?? outer.act.id) : undefined,
      parse_error: read?.parse_error,
      seq: seqOf(start),
      tool_call_id: here.id,
      type: what.type ?? 'function',
    };
    // Where a model call that is not at hand requested it, the data of that call win: an unknown time comes first.
    const time = what.callId === null ? start : null;
    drafts.push(emit('tool.called', [trace, id], called, time, { revision, full: false }));
  }
  if (end !== null || what.output !== undefined) {
    const status = what.status ?? (act.error === undefined ? 'ok' : 'error');
    const apparent = status === 'ok' && isMcpError(what.output);
    const added = [...(apparent ? [APPARENT_ERROR] : []), ...(tree.isByOrder(act) ? [PAIRED_BY_ORDER] : [])];
    const returned = {
      call_id: here.call_id,
      duration_ms: millisecondsBetween(start, end),
      episode_id: trace,
      error: act.error,
      flags: added.length > 0 ? [...(kept.flags ?? []), ...added] : kept.flags,
      native: { ...kept.native, tool_call_id: nativeId },
      output: what.output,
      parent_id: here.parent_id,
      seq: seqOf(end ?? start),
      status,
      tool_call_id: here.id,
      unmapped: kept.unmapped,
    } as const;
    drafts.push(emit('tool.returned', [trace, id], returned, end, { revision, full: asked !== null }));
  }
  return drafts;
}

/** Of several open calls of its tool the first was taken: the result may be another one's. */
const PAIRED_BY_ORDER = 'paired_by_order';

/** A result of the Model Context Protocol reports the error of its tool in a member, `{content, isError: true}`. */
function isMcpError(output: unknown): boolean {
  if (isRecord(output)) return output.isError === true;
  if (typeof output !== 'string' || !output.startsWith('{') || !output.includes('"isError"')) return false;
  const read = parseRecord(output);
  return 'value' in read && isMcpError(read.value);
}

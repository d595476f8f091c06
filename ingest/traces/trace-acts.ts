/** Each act as its events, whatever format it came from. */
import type { Draft } from '../events/events.ts';
import { given, without } from '../events/json.ts';
import type { Act } from './trace.ts';
import { generationDrafts, toolDrafts } from './trace-calls.ts';
import { type Emit, type Provenance, seqOf } from './trace-emit.ts';
import type { TraceTree } from './trace-tree.ts';

export function actDrafts(emit: Emit, act: Act, tree: TraceTree): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  const agent = tree.agentOf(act);
  const kept = keptOf(act, tree);
  const seq = seqOf(start ?? end);
  const parent = act.parent || undefined;
  const full = { revision, full: agent !== null };
  switch (what.kind) {
    case 'generation':
      return tree.isLeaf(act)
        ? generationDrafts(emit, act, agent, tree, kept)
        : [observed(emit, act, kept, 'span', { name: act.name })];
    case 'tool':
      return toolDrafts(emit, act, agent, tree, kept);
    case 'agent': {
      if (act.agent == null) return [observed(emit, act, kept, 'span', { name: act.name })];
      const parentAgent = tree.parentAgentOf(act);
      const defined = {
        agent_id: act.agent,
        episode_id: trace,
        model: what.model,
        name: act.agent,
        parent_agent_id: parentAgent ?? undefined,
        system_instructions: what.instructions,
        tools: what.tools,
        unmapped: what.description,
      };
      const started = {
        agent_id: act.agent,
        episode_id: trace,
        flags: kept.flags,
        native: kept.native,
        parent_id: parent,
        seq,
        state: 'started',
        unmapped: kept.unmapped,
      } as const;
      const changed = [
        emit('agent.defined', [trace, id], defined, start ?? end, {
          revision,
          full: act.parent === null || parentAgent !== null,
        }),
        emit('agent.changed', [trace, id, 0], started, start, { revision }),
      ];
      if (end === null) return changed;
      const stopped = {
        agent_id: act.agent,
        episode_id: trace,
        parent_id: parent,
        reason: typeof act.error === 'string' && act.error !== '' ? act.error : undefined,
        seq: seqOf(end) ?? seq,
        state: act.error === undefined ? 'stopped' : 'errored',
      } as const;
      return [...changed, emit('agent.changed', [trace, id, 1], stopped, end, { revision })];
    }
    case 'handoff': {
      const transferred = {
        episode_id: trace,
        flags: kept.flags,
        from_agent: what.from ?? agent ?? undefined,
        kind: 'handoff',
        native: kept.native,
        parent_id: parent,
        seq,
        to_agent: what.to,
        unmapped: kept.unmapped,
      } as const;
      return [emit('control.transferred', [trace, id], transferred, start, full)];
    }
    case 'decision': {
      const made = {
        by: agent ?? undefined,
        decision: what.decision,
        episode_id: trace,
        flags: kept.flags,
        kind: what.decided,
        native: kept.native,
        parent_id: parent,
        seq,
        unmapped: kept.unmapped,
      };
      return [emit('decision.made', [trace, id], made, end ?? start, full)];
    }
    case 'observation':
      return [observed(emit, act, kept, what.seen, what.content)];
    case 'wrapper':
      return [observed(emit, act, kept, 'span', { name: act.name })];
    case 'episode':
      return kept.unmapped ? [observed(emit, act, kept, 'trace', { name: act.name })] : [];
  }
}

function keptOf(act: Act, tree: TraceTree): Provenance {
  const { what, error } = act;
  const isError =
    what.kind === 'tool' ||
    (what.kind === 'generation' && tree.isLeaf(act)) ||
    (what.kind === 'agent' && typeof error === 'string');
  const unreported = isError ? undefined : error;
  return {
    flags: act.flags?.length ? [...act.flags] : undefined,
    native: {
      format: act.format,
      ids: { span_id: act.id, trace_id: act.trace },
      name: act.name === '' ? undefined : act.name,
    },
    unmapped:
      unreported === undefined && !act.native
        ? act.unmapped && without(act.unmapped)
        : without({ ...act.unmapped, ...given('error', unreported), ...(act.native ? { otlp: act.native } : {}) }),
  };
}

/** Something seen; or a span that stands around others: kept, so that nothing of it is lost, and counted as nothing. */
function observed(emit: Emit, act: Act, kept: Provenance, kind: string, content: unknown): Draft {
  const { trace, id, start, end, revision } = act;
  const seen = {
    content,
    episode_id: trace,
    flags: kept.flags,
    kind,
    native: kept.native,
    parent_id: act.parent || undefined,
    seq: seqOf(start ?? end),
    unmapped: kept.unmapped,
  };
  return emit('environment.observed', [trace, id], seen, start ?? end, { revision });
}
